"""Contestants that compute nothing; a worker finds them by the name of this module."""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from mindport.tuning.contestant import Built

MODULE = "tests.tuning.fakes"


def constant(value: float = 1.0, shape: tuple[int, ...] = (2,), about: str = "") -> Built:
    """Its value is the same at every call."""
    return Built(lambda: None, lambda: {"y": np.full(shape, value)}, {"about": about})


def counting() -> Built:
    """Its value says how often it was called; its environment, with how many threads."""
    calls: list[int] = []
    return Built(
        lambda: calls.append(1), lambda: {"calls": np.float64(len(calls))}, {"omp": os.environ["OMP_NUM_THREADS"]}
    )


def hungry(megabytes: int) -> Built:
    """Every call takes so much memory, and gives it back."""
    return Built(lambda: np.ones(megabytes * 125_000).sum(), lambda: {"y": np.ones(2)})


def loud() -> Built:
    """Prints where the answers go, from Python and past it."""
    print("from Python")
    os.write(1, b"from C\n")
    return constant()


def refusing() -> Built:
    """Cannot be built."""
    raise ValueError("no such operator here")


def hanging() -> Built:
    """Does not come back from a call."""
    return Built(lambda: time.sleep(600), dict)


def dying() -> Built:
    """Ends its process when it is called."""

    def run() -> None:
        print("killed by a signal, perhaps", file=sys.stderr, flush=True)
        os._exit(3)

    return Built(run, dict)
