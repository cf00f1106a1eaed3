"""Does the notebook kernel `python3` start the interpreter that was checked?"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mindport.environment.check import Check

GROUP = "kernel"
NAME = "python3"
REGISTER = f"python -m ipykernel install --sys-prefix --name {NAME}"
_OWN = re.compile(r"python(3(\.\d+)?)?")  # Jupyter puts its own interpreter in the place of these names


def check_kernel() -> tuple[Check, ...]:
    """The kernelspec that Jupyter, started from this environment, would take."""
    return (check_kernelspec(find_kernelspec(kernel_directories(os.environ, sys.prefix)), sys.executable),)


def kernel_directories(environ: Mapping[str, str], prefix: str) -> list[Path]:
    """Where Jupyter looks for kernels, in its order: JUPYTER_PATH, the environment, the user, the system."""
    listed = [entry for entry in environ.get("JUPYTER_PATH", "").split(os.pathsep) if entry]
    user = environ.get("JUPYTER_DATA_DIR") or str(Path(environ.get("HOME", "~")).expanduser() / ".local/share/jupyter")
    roots = [*listed, f"{prefix}/share/jupyter", user, "/usr/local/share/jupyter", "/usr/share/jupyter"]
    return [Path(root) / "kernels" for root in roots]


def find_kernelspec(directories: Sequence[Path]) -> Path | None:
    """The first `python3/kernel.json`; None when it is registered nowhere."""
    files = (directory / NAME / "kernel.json" for directory in directories)
    return next((file for file in files if file.is_file()), None)


def check_kernelspec(spec: Path | None, interpreter: str) -> Check:
    """Whether the kernelspec starts `interpreter`."""
    name, expected = f"kernel {NAME}", f"starts {interpreter}"
    do = f"with this environment active: {REGISTER}"
    if spec is None:
        found = "not registered: only a Jupyter started from this very environment will find it"
        return Check(name, GROUP, "warning", found, expected, do)
    try:
        starts = str(json.loads(spec.read_text(encoding="utf-8"))["argv"][0])
    except (OSError, ValueError, LookupError, TypeError) as error:
        return Check(name, GROUP, "error", f"{spec} cannot be read: {error}", expected, do)
    if _OWN.fullmatch(starts):
        return Check(name, GROUP, "pass", f"{spec}: the interpreter that Jupyter itself runs on", expected)
    if _same_interpreter(starts, interpreter):
        return Check(name, GROUP, "pass", str(spec), expected)
    return Check(name, GROUP, "error", f"{spec} starts {starts}", expected, do)


def _same_interpreter(one: str, other: str) -> bool:
    """Compare the folders, not the files: every venv's `python` links to the same base interpreter."""
    path = Path(shutil.which(one) or one)
    return path.parent.resolve() == Path(other).parent.resolve()
