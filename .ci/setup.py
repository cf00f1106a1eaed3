"""Make the virtual environment, once: `python .ci/setup.py [--venv .venv] [--python python3.11]`.

Standard library only, and readable by any Python 3.8 or later: it looks for an interpreter that MindSpore supports,
installs pyproject.toml with constraints.txt, and registers the Jupyter kernel. Nothing is done again until one of the
two files changes; a run that was interrupted is taken up by the next.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INPUTS = ("pyproject.toml", "constraints.txt")
SUPPORTED = ((3, 10), (3, 11), (3, 12))
CANDIDATES = ("python3.11", "python3.12", "python3.10", "python3", "python")  # 3.11 is the one tested most
DISK_GB = 8  # the environment takes 4.2 with the CPU build of torch, and pip unpacks beside it


class SetupError(Exception):
    """What failed, and what to do about it."""


def say(text: str) -> None:
    """One line of progress."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def version_of(python: str | Path) -> tuple[int, int] | None:
    """The (major, minor) version of an interpreter; None when it does not run."""
    try:
        answer = subprocess.run(
            [str(python), "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, timeout=60
        )
        major, minor = answer.stdout.split()
        return int(major), int(minor)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def can_make_venv(python: str) -> bool:
    """Whether the interpreter brings `venv` and `ensurepip`, which Debian packages apart."""
    return subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0


def find_python(asked: str) -> str:
    """The interpreter to build with: the one asked for, or the first suitable one on the PATH."""
    found = {name: version_of(name) for name in ([asked] if asked else CANDIDATES)}
    right = [name for name, version in found.items() if version in SUPPORTED]
    if not right:
        seen = ", ".join(
            f"{name} is {'.'.join(map(str, version))}" if version else f"{name} does not run"
            for name, version in found.items()
            if version or asked
        )
        raise SetupError(
            f"no Python 3.10, 3.11 or 3.12, which MindSpore 2.10 needs ({seen or 'none on the PATH'})\n"
            "  do: install Python 3.11, or name one: make run PYTHON=/path/to/python3.11"
        )
    whole = [name for name in right if can_make_venv(name)]
    if not whole:
        raise SetupError(
            f"{right[0]} cannot make virtual environments: its venv or ensurepip module is missing\n"
            "  do: install it (Debian, Ubuntu: apt-get install python3-venv)"
        )
    return whole[0]


def check_disk(venv: Path) -> None:
    """Refuse to begin an installation that the disk cannot hold."""
    place = next(parent for parent in venv.parents if parent.exists())
    free = shutil.disk_usage(place).free / 1e9
    if free < DISK_GB:
        raise SetupError(
            f"{free:.1f} GB free where {venv} goes, and the installation needs {DISK_GB}\n"
            "  do: free some space, or put the environment elsewhere: make run VENV=/other/disk/venv"
        )


def make_venv(venv: Path, asked: str) -> None:
    """Create the environment when it is absent or does not run; never touch a folder that is something else."""
    if venv.exists() and not (venv / "pyvenv.cfg").exists() and (not venv.is_dir() or any(venv.iterdir())):
        raise SetupError(f"{venv} is there and is no virtual environment\n  do: remove it, or pass VENV=elsewhere")
    if version_of(venv / "bin" / "python") in SUPPORTED and has_pip(venv):
        return
    python = find_python(asked)
    say(f"making {venv} with {python} ({'.'.join(map(str, version_of(python) or ()))})")
    run([python, "-m", "venv", "--clear", str(venv)], "the virtual environment could not be made", venv)


def check_asked(venv: Path, asked: str) -> None:
    """Refuse a Python that MindSpore does not support, or that is not the one of the environment that is there."""
    find_python(asked)
    there = version_of(venv / "bin" / "python")
    if there and there != version_of(asked):
        raise SetupError(
            f"{venv} has Python {'.'.join(map(str, there))}, not that of {asked}\n  do: make clean, then the same again"
        )


def has_pip(venv: Path) -> bool:
    """Whether the environment was finished: pip comes last."""
    return subprocess.run([str(venv / "bin" / "python"), "-c", "import pip"], capture_output=True).returncode == 0


def install(venv: Path) -> None:
    """Install the package in place with its test tools, then the kernel that notebooks ask for by name."""
    python = str(venv / "bin" / "python")
    say("installing pyproject.toml with constraints.txt (some minutes the first time)")
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        say("if pip now takes CUDA packages: pyproject.toml says, beside torch, how to get the CPU build")
    command = [python, "-m", "pip", "install", "-c", "constraints.txt", "-e", ".[test]"]
    run(command, "pip could not install the packages", venv)
    say("registering the Jupyter kernel python3")
    kernel = [python, "-m", "ipykernel", "install", "--sys-prefix", "--name", "python3", "--display-name", "MindPort"]
    run(kernel, "the Jupyter kernel could not be registered", venv)


def run(command: list[str], failure: str, venv: Path) -> None:
    """Run a command from the repository's root, its output on stderr; say the likely cause when it fails."""
    code = subprocess.run(command, cwd=ROOT, stdout=sys.stderr.fileno()).returncode
    if code == 0:
        return
    free = shutil.disk_usage(venv.parent).free / 1e9
    cause = (
        f"the disk is full ({free:.1f} GB free)"
        if free < 1
        else "its last lines above name the cause: no network, a proxy, or no wheel for this system"
    )
    raise SetupError(f"{failure} (exit {code})\n  cause: {cause}\n  command: {' '.join(command)}")


def stamp_text(venv: Path) -> str:
    """What the installation depends on, as one digest: the two lists, the place, the Python."""
    digest = hashlib.sha256(f"{ROOT}\n{version_of(venv / 'bin' / 'python')}\n".encode())
    for name in INPUTS:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest() + "\n"


def is_current(venv: Path) -> bool:
    """Whether the environment was installed from these very files."""
    stamp = venv / "mindport.stamp"
    return stamp.exists() and stamp.read_text() == stamp_text(venv)


def warn_without_compiler() -> None:
    """A C++ compiler is wanted, not needed."""
    if not any(map(shutil.which, ("g++", "c++", "clang++"))):
        say("warning: no C++ compiler, so plain and slower operators will compute (Debian: apt-get install g++)")


def set_up(venv: Path, asked: str) -> None:
    """Bring the environment to the state that pyproject.toml and constraints.txt describe."""
    if asked:
        check_asked(venv, asked)
    if is_current(venv):
        say(f"{venv} is up to date, nothing to do")
        return
    check_disk(venv)
    make_venv(venv, asked)
    install(venv)
    warn_without_compiler()
    (venv / "mindport.stamp").write_text(stamp_text(venv))
    say(f"done: {venv}")


def main() -> int:
    """Parse, set up, and turn a failure into one message and exit code 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--venv", default=".venv", help="the environment's folder (default: .venv)")
    parser.add_argument("--python", default="", help="the interpreter to make it with (default: search the PATH)")
    arguments = parser.parse_args()
    os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    try:
        set_up((ROOT / arguments.venv).absolute(), arguments.python)
    except (SetupError, OSError) as error:
        print(f"set-up failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up stopped; the next run takes it up", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
