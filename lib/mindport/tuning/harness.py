"""Side by side in one run: contestants take turns, and the ratio to the peer is what counts.

A time alone says something about a machine; a ratio taken in the same minute says something about the code. Two
ratios are given: of the medians over all calls, and the median of the ratios within each round, which a machine
that slows down or speeds up during the run moves less.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from mindport.tuning.case import Case, Memory, Timing

REPEATS = 5

Seconds = list[list[float]]  # of one contestant: round by round, call by call


def take_turns(contestants: Mapping[str, Callable[[], Sequence[float]]], rounds: int) -> dict[str, Seconds]:
    """Seconds of every contestant, round by round; every other round goes the other way, so none is always second.

    Args:
        contestants: by name, what makes some calls and returns the seconds of each.
        rounds: how often each has its turn.
    """
    seconds: dict[str, Seconds] = {name: [] for name in contestants}
    for turn in range(rounds):
        for name in list(contestants)[:: -1 if turn % 2 else 1]:
            seconds[name].append(list(contestants[name]()))
    return seconds


def in_turn(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Seconds]:
    """The same for functions of this process, one call a turn."""
    return take_turns({name: _timed(call) for name, call in calls.items()}, rounds)


def timings(seconds: Mapping[str, Seconds]) -> dict[str, Timing]:
    """Order statistics over all the calls of each contestant."""
    return {name: Timing.of([call for turn in rounds for call in turn]) for name, rounds in seconds.items()}


def paired_ratios(seconds: Mapping[str, Seconds]) -> dict[str, float]:
    """Median over the rounds of (the first contestant's median in the round / the other's in the same round)."""
    (_, ours), *peers = seconds.items()
    return {
        name: statistics.median(
            statistics.median(mine) / statistics.median(its) for mine, its in zip(ours, rounds, strict=True)
        )
        for name, rounds in peers
    }


def compare(
    name: str, contestants: Mapping[str, Callable[[], object]], *, work: float, unit: str, repeats: int = REPEATS,
    memory: Mapping[str, Memory] | None = None,
) -> Case:  # fmt: skip
    """Time functions of this process in turn, after one round to warm up; ours comes first.

    Args:
        name: of the case.
        contestants: what to time, by name.
        work: amount done by one call, for the rate.
        unit: of the rate ("MB/s").
        repeats: rounds that count.
        memory: figures to keep with the case.
    """
    in_turn(contestants, 1)
    seconds = in_turn(contestants, repeats)
    return Case(name, timings(seconds), paired_ratios(seconds), work, unit, memory=dict(memory or {}))


def _timed(call: Callable[[], object]) -> Callable[[], list[float]]:
    def timed() -> list[float]:
        start = time.perf_counter()
        call()
        return [time.perf_counter() - start]

    return timed
