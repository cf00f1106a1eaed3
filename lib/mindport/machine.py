"""Where a record was made: package versions and the machine, without importing any of the packages."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterable

import mindport

PACKAGES = ("mindspore", "torch", "transformers", "numpy", "safetensors", "tokenizers", "ml_dtypes")


def versions() -> dict[str, str]:
    """The version of Python and of each package that can change a number; "not installed" is an answer."""
    ours = {"mindport": mindport.__version__, "python": platform.python_version()}
    return ours | {name: _version(name) for name in PACKAGES}


def cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine(backends: Iterable[str]) -> dict[str, object]:
    """The machine, and the devices that the properties of a step name ("CPU" when they name none)."""
    devices = sorted(set(backends) - {"none", ""})
    return {
        "os": f"{platform.system()} {platform.release()}",
        "arch": platform.machine(),
        "cores": cores(),
        "memory": f"{_memory_bytes() / 2**30:.1f} GiB",
        "device": ", ".join(devices) or "CPU",
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
