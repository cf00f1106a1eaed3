"""Side by side in one run: interleaved repetitions, medians, spread, and the ratio to the peer.

A time alone says something about a machine; a ratio taken in the same minute says something about the code.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mindport.results import Result
from mindport.tables import Table

REPEATS = 5


@dataclass(frozen=True)
class Timing:
    """Wall seconds of one contestant: the median, and the fastest and slowest repetition."""

    median: float
    fastest: float
    slowest: float


@dataclass(frozen=True)
class Case:
    """One case: what was timed, by contestant, and what memory ours took; the first contestant is ours."""

    name: str
    timings: dict[str, Timing]
    work: float
    unit: str
    memory: dict[str, float] = field(default_factory=dict)

    @property
    def ratios(self) -> dict[str, float]:
        """Our median over each peer's: below 1 is faster than the peer."""
        ours, *peers = self.timings.items()
        return {name: ours[1].median / timing.median for name, timing in peers}


@dataclass(frozen=True)
class Benchmark(Result):
    """The cases of a benchmark, with the machine they ran on. It has figures, not a verdict."""

    name: str
    cases: tuple[Case, ...]
    machine: dict[str, Any]
    versions: dict[str, str]

    @property
    def ok(self) -> bool:
        """A benchmark that came to its end is fine."""
        return bool(self.cases)

    def headline(self) -> str:
        parts = [f"{case.name}: " + ", ".join(f"{ratio:.2f} × {peer}" for peer, ratio in case.ratios.items())
                 for case in self.cases]  # fmt: skip
        return f"{self.name}, wall time (below 1 is faster): " + "; ".join(parts)

    def tables(self) -> tuple[Table, ...]:
        rows = [
            (case.name, who, t.median, t.fastest, t.slowest, f"{case.work / t.median:,.0f} {case.unit}")
            for case in self.cases
            for who, t in case.timings.items()
        ]
        times = Table(self.name, ("case", "who", "median s", "fastest s", "slowest s", "rate"), rows)
        kept = [(case.name, what, figure) for case in self.cases for what, figure in case.memory.items()]
        return (times, Table("memory", ("case", "what", "figure"), kept)) if kept else (times,)

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "ratios": {case.name: case.ratios for case in self.cases}}


def compare(
    name: str, contestants: Mapping[str, Callable[[], object]], *, work: float, unit: str, repeats: int = REPEATS,
    memory: Mapping[str, float] | None = None,
) -> Case:  # fmt: skip
    """Time the contestants in turn, after one round to warm up; ours comes first.

    Args:
        name: of the case.
        contestants: what to time, by name.
        work: amount done by one call, for the rate.
        unit: of the rate ("MB/s").
        repeats: rounds that count.
        memory: figures to keep with the case.
    """
    seconds: dict[str, list[float]] = {who: [] for who in contestants}
    for repeat in range(repeats + 1):
        for who, call in contestants.items():
            start = time.perf_counter()
            call()
            if repeat:
                seconds[who].append(time.perf_counter() - start)
    timings = {who: Timing(statistics.median(s), min(s), max(s)) for who, s in seconds.items()}
    return Case(name, timings, work, unit, dict(memory or {}))
