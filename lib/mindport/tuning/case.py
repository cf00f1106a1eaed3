"""One case of a benchmark: times, ratios, memory, numerics, and how near to its targets and to the machine's peaks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindport.results import plain
from mindport.tuning.numerics import Agreement

GEMM, FMA = "GEMM", "FMA"
MEMORY_TARGET = 1.0  # of the peer's growth


@dataclass(frozen=True)
class Timing:
    """Wall seconds of one contestant's calls."""

    median: float
    fastest: float
    lower_quartile: float
    upper_quartile: float
    slowest: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        """The order statistics of some calls."""
        calls = sorted(seconds)
        lower, median, upper = statistics.quantiles(calls, n=4, method="inclusive") if calls[1:] else calls * 3
        return cls(median, calls[0], lower, upper, calls[-1])


@dataclass(frozen=True)
class Memory:
    """Megabytes of one process: before anything was built (the framework is imported), and at the peak."""

    before: float
    peak: float

    @property
    def growth(self) -> float:
        """What the work itself took."""
        return self.peak - self.before


@dataclass(frozen=True)
class Target:
    """A ratio that is aimed at, and what was reached; a missed target is said, it is no error."""

    case: str
    what: str
    peer: str
    ratio: float
    limit: float

    @property
    def state(self) -> str:
        return "reached" if self.ratio <= self.limit else "missed"

    def __str__(self) -> str:
        return f"{self.what} of {self.peer} in {self.case} ({self.ratio:.2f}, target {self.limit:.2f})"


@dataclass(frozen=True)
class Case:
    """One case, ours first.

    Attributes:
        name: what is computed.
        timings: of each contestant.
        paired: peer → median over the rounds of ours / peer within the round.
        work: amount done by one call.
        unit: of work per second ("GFLOP/s").
        memory: of each contestant's process.
        numerics: every value of every peer, held to ours.
        aims: peer → the ratio of medians that is aimed at.
        peaks: GFLOP/s that this machine gave in the run ("FMA", "GEMM").
        about: what contestants say of themselves: threads, the paths of their kernels.
        absent: contestants that are not in it, and why.
    """

    name: str
    timings: dict[str, Timing]
    paired: dict[str, float]
    work: float
    unit: str
    memory: dict[str, Memory] = field(default_factory=dict)
    numerics: tuple[Agreement, ...] = ()
    aims: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every contestant computed the same."""
        return all(agreement.ok for agreement in self.numerics)

    @property
    def ours(self) -> str:
        return next(iter(self.timings))

    @property
    def ratios(self) -> dict[str, float]:
        """Our median over each peer's: below 1 is faster than the peer."""
        ours, *peers = self.timings.items()
        return {name: ours[1].median / timing.median for name, timing in peers}

    @property
    def memory_ratios(self) -> dict[str, float]:
        """Our growth of memory over each peer's."""
        growths = {name: memory.growth for name, memory in self.memory.items() if name in self.timings}
        if self.ours not in growths:
            return {}
        mine = growths.pop(self.ours)
        return {name: mine / growth for name, growth in growths.items() if growth > 0}

    def rate(self, who: str) -> float:
        """Work per second."""
        return self.work / self.timings[who].median

    def shares(self, who: str) -> dict[str, float]:
        """The rate as a share of each of the machine's peaks."""
        return {name: self.rate(who) / peak for name, peak in self.peaks.items()}

    def targets(self) -> Iterator[Target]:
        """Time against each peer that has an aim; memory against the same ones."""
        for peer, limit in self.aims.items():
            if peer in self.ratios:
                yield Target(self.name, "time", peer, self.ratios[peer], limit)
                if limit >= 0.5 and peer in self.memory_ratios:  # a translation to be left behind is no yardstick
                    yield Target(self.name, "memory", peer, self.memory_ratios[peer], MEMORY_TARGET)

    def as_dict(self) -> dict[str, Any]:
        """The figures that follow from the fields."""
        derived = {who: {"rate": self.rate(who), "shares": self.shares(who)} for who in self.timings}
        growths = {who: memory.growth for who, memory in self.memory.items()}
        return {"ok": self.ok, "ratios": self.ratios, "memory_ratios": self.memory_ratios, "rates": derived,
                "memory_growth": growths,
                "targets": [{**plain(target), "state": target.state} for target in self.targets()]}  # fmt: skip
