"""The processes of a training that can be killed: the one that was started, and the ranks, where it starts some."""

from __future__ import annotations

import time
from pathlib import Path

from mindport.errors import BackendError
from mindport.process_table import end_all, parent_of, variables, with_token

TOKEN = "MINDPORT_KILL_TEST"  # in the environment of all processes of one training
PATIENCE = 60.0  # seconds until nothing is left of a training that was killed


def ranks(token: str) -> dict[int, int]:
    """Rank → the process that computes, of those that run by now.

    Each has a parent of the same rank, which waits for it.
    """
    told = {pid: variables(pid) for pid in with_token(TOKEN, token)}
    found = {pid: each.get("RANK_ID") for pid, each in told.items() if each.get("MS_ROLE") == "MS_WORKER"}
    return {int(rank): pid for pid, rank in found.items() if rank is not None and found.get(parent_of(pid)) == rank}


def end(token: str) -> None:
    """Kill what is left of a training."""
    end_all(lambda: with_token(TOKEN, token))


def wait_for_the_end(token: str, where: Path) -> None:
    """Until nothing is left of a training.

    Raises:
        BackendError: something outlives it.
    """
    limit = time.monotonic() + PATIENCE
    while left := with_token(TOKEN, token):
        if time.monotonic() > limit:
            end(token)
            raise BackendError("processes outlive the training that they belong to", where=where,
                               got=f"{len(left)} after {PATIENCE:g} s: {sorted(left)}")  # fmt: skip
        time.sleep(0.05)
