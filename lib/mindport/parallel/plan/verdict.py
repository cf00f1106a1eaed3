"""One layout, judged: refused by a rule, too large, or fit; what a slider asks."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.mindformers.layout import Layout
from mindport.parallel.plan.grid import as_grid
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.planner import evaluate
from mindport.parallel.plan.result import ESTIMATED, GB, Candidate, memory_table, time_table
from mindport.parallel.plan.rules import Refused, legal
from mindport.results import Property, Result
from mindport.tables import Table


@dataclass(frozen=True)
class Verdict(Result):
    """What becomes of a layout.

    Attributes:
        layout: the one that was asked for.
        refused: the rule that it breaks; None for a legal one.
        candidate: what is expected of a legal one.
    """

    layout: str
    refused: Refused | None
    candidate: Candidate | None

    @property
    def ok(self) -> bool:
        return self.candidate is not None and self.candidate.fits

    def headline(self) -> str:
        if self.refused is not None:
            return f"{self.layout} is illegal: {self.refused.reason} (rule: {self.refused.rule})."
        c = self.candidate
        assert c is not None
        fits = "fits" if c.fits else "does not fit"
        return (
            f"{self.layout} {fits}: {c.needed / GB:.1f} of {c.limit / GB:.1f} GB a card; "
            f"{c.tokens_per_second:,.0f} tokens/s a card, MFU {c.mfu:.0%}, "
            f"bubble {c.time['bubble'] / c.seconds:.0%} ({ESTIMATED})."
        )

    def tables(self) -> tuple[Table, ...]:
        return () if self.candidate is None else (memory_table((self.candidate,)), time_table((self.candidate,)))

    def properties(self) -> tuple[Property, ...]:
        return (Property("a layout fits", "not verified", ESTIMATED, self.headline()),)


def judge(job: Job, layout: Layout) -> Verdict:
    """Hold one layout to the rules and to the memory.

    Raises:
        UsageError: it is for another number of devices, or the batch does not divide.
    """
    good, refused = legal(job, as_grid(job, layout))
    if not good[0]:
        return Verdict(str(layout), refused[0], None)
    return Verdict(str(layout), None, evaluate(job, layout))
