"""A suspected mistake: what it says, and what a value would be under it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mindport.debug.diagnosis.cause import Cause, distance, explained
from mindport.debug.diagnosis.cells import Array
from mindport.debug.diagnosis.site import Site
from mindport.parity import metrics

PARTLY = 0.9  # of the difference: what explains less is not told
Candidates = Iterable[tuple[str, Array]]  # (which one, what the value would be)


@dataclass(frozen=True)
class Hypothesis:
    """One row of a table of mistakes.

    Attributes:
        name: of the cause.
        says: the mistake in a sentence; {} is where the best candidate's name goes.
        next_action: what to do about it.
        would_be: what the value would be, for one candidate or several; nothing where the mistake cannot be.
    """

    name: str
    says: str
    next_action: str
    would_be: Callable[[Site], Candidates]

    def cause(self, site: Site) -> Cause | None:
        """The cause that it is, None when it does not explain the value."""
        best: tuple[float, str, Array] | None = None
        for which, value in self.would_be(site):
            share = explained(site.ours, site.right, value, site.limit)
            if share >= PARTLY and (best is None or share > best[0]):
                best = (share, which, value)
            if share == 1:
                break
        if best is None:
            return None
        share, which, value = best
        return Cause(self.name, self.says.format(which), site.path, _told(site, value, share), self.next_action, share)


def _told(site: Site, value: Array, share: float) -> str:
    apart, left = metrics.relative(site.ours, site.right), distance(site.ours, value, site.right)
    known = f"explains {share:.0%} of the difference" if share < 1 else "reproduced"
    return f"{known}: our value is this within {left:.0e}, and {apart:.1g} from the right one"


def one(would_be: Array) -> Candidates:
    """The only candidate of a hypothesis."""
    return [("", would_be)]
