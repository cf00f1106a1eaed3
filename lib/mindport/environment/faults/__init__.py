"""Planted faults: packages that misbehave in a known way, found before the real ones by one probe at a time."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mindport.errors import UsageError

# name of the fault: (the file beside this one, where the fault is planted)
FAULTS = {
    "NumPy 2": ("numpy_2.py", "mindspore/__init__.py"),
    "safetensors 0.8": ("safetensors_0_8.py", "safetensors/numpy.py"),
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[Path]:
    """Yield a folder that holds the faulty package, for the front of a probe's search path.

    Raises:
        UsageError: there is no such fault.
    """
    if name not in FAULTS:
        raise UsageError("there is no such planted fault", got=name, expected=", ".join(FAULTS))
    file, target = FAULTS[name]
    with tempfile.TemporaryDirectory(prefix="mindport-fault-") as folder:
        module = Path(folder, target)
        module.parent.mkdir()
        (module.parent / "__init__.py").touch()
        shutil.copyfile(Path(__file__).with_name(file), module)
        yield Path(folder)
