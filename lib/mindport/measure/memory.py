"""This process's memory: now, and at its peak from a moment on."""

from __future__ import annotations

import contextlib
import resource
import sys
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # what Linux takes for: let VmHWM begin again at VmRSS


def reset_peak() -> None:
    """Forget the peak so far. Where the system has no way to, the peak so far stands, and growth is understated."""
    with contextlib.suppress(OSError):
        CLEAR.write_text(RESET_PEAK)


def peak() -> float:
    """Megabytes (1e6) at the peak: VmHWM, or `ru_maxrss` where there is no /proc."""
    if STATUS.is_file():
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def resident() -> float:
    """Megabytes (1e6) of this process in memory now; its peak where there is no /proc."""
    return _status("VmRSS") if STATUS.is_file() else peak()


def swapped() -> float:
    """Megabytes (1e6) of this process that are swapped out; 0 where there is no /proc."""
    return _status("VmSwap") if STATUS.is_file() else 0.0


def _status(name: str) -> float:
    """A line of /proc/self/status, which counts in KiB; 0 where the kernel leaves it out."""
    lines = (line.split() for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return next((int(words[1]) * 1024 / 1e6 for words in lines), 0.0)
