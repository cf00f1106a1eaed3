"""The peak of this process's resident memory, from a moment on."""

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
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
