"""Processes as the kernel lists them: those below one, those with a token of ours; and how all of them are ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PROC = Path("/proc")
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PATIENCE = 10.0  # seconds, for processes that the kernel cannot end at once


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal as soon as its parent ends.

    The wish counts for the thread that forked, which has to be one that lasts. A parent that ended before the wish was
    made is noticed by its number.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Be the parent of each process below this one whose own parent ends: none of them is lost from sight."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    return _status(pid)[0] not in ("", "Z", "X")


def has_ended(pid: int) -> bool:
    """Whether this child has ended; leave is taken of all that have, adopted ones too."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitpid(-1, os.WNOHANG)[0]:
            if ended == pid:
                return True
        return False
    return True


def parent_of(pid: int) -> int:
    """The process that it is a child of; 0 when it is gone."""
    return _status(pid)[1]


def variables(pid: int) -> dict[str, str]:
    """The environment that it was started with; nothing when it is gone, or somebody else's."""
    pairs = (pair.decode(errors="replace") for pair in _environ(pid))
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def below(pid: int) -> list[int]:
    """All processes that descend from this one, without itself and without zombies."""
    children: dict[int, list[int]] = {}
    for other in _all():
        state, parent = _status(other)
        if state not in ("", "Z", "X"):
            children.setdefault(parent, []).append(other)
    found, rest = [], [pid]
    while rest:
        rest += (new := children.pop(rest.pop(), []))
        found += new
    return found


def with_token(name: str, value: str) -> list[int]:
    """All processes of this user that were started with this variable, without the one that asks."""
    wanted = f"{name}={value}".encode()
    return [pid for pid in _all() if pid != os.getpid() and wanted in _environ(pid) and is_running(pid)]


def end_all(which: Callable[[], list[int]]) -> list[int]:
    """Kill what `which` lists, again until it lists nothing more: who forks meanwhile is seen the next time.

    Returns:
        Those that were still there after `PATIENCE`.
    """
    limit = time.monotonic() + PATIENCE
    while (left := which()) and time.monotonic() < limit:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return left


def _all() -> Iterator[int]:
    return (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())


def _status(pid: int) -> tuple[str, int]:
    """State and parent; an empty state when it is gone."""
    try:
        after_name = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return after_name[0], int(after_name[1])
    except (OSError, IndexError, ValueError):
        return "", 0


def _environ(pid: int) -> list[bytes]:
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
