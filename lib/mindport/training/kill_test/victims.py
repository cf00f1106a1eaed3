"""The processes of a training that can be killed: the one that was started, and the ranks, where it starts some."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from mindport.errors import BackendError

TOKEN = "MINDPORT_KILL_TEST"  # in the environment of all processes of one training
PROC = Path("/proc")
PATIENCE = 60.0  # seconds until nothing is left of a training that was killed


def ranks(token: str) -> dict[int, int]:
    """Rank → the process that computes, of those that run by now.

    Each has a parent of the same rank, which waits for it.
    """
    found = {pid: variables.get("RANK_ID") for pid, variables in _living(token).items()
             if variables.get("MS_ROLE") == "MS_WORKER"}  # fmt: skip
    return {int(rank): pid for pid, rank in found.items() if rank is not None and found.get(_parent(pid)) == rank}


def end(token: str) -> None:
    """Kill what is left of a training."""
    for pid in _living(token):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_for_the_end(token: str, where: Path) -> None:
    """Until nothing is left of a training.

    Raises:
        BackendError: something outlives it.
    """
    limit = time.monotonic() + PATIENCE
    while left := _living(token):
        if time.monotonic() > limit:
            end(token)
            raise BackendError("processes outlive the training that they belong to", where=where,
                               got=f"{len(left)} after {PATIENCE:g} s: {sorted(left)}")  # fmt: skip
        time.sleep(0.05)


def _living(token: str) -> dict[int, dict[str, str]]:
    """Process → its variables, of all that were started with this token and have not ended."""
    found = {}
    for place in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pairs = (place / "environ").read_text(errors="replace").split("\0")
            variables = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            if variables.get(TOKEN) == token:  # of a process that has ended there are none
                found[int(place.name)] = variables
    return found


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return 0
