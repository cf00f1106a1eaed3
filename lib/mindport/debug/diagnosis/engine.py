"""diagnose(evidence): what is wrong, how that is known, and what to do next.

*Explain by reproducing*: a trace holds what each module was given and what it made, so a suspected mistake is a small
function that computes what the value would be under it. Where that is our value to rounding, no heuristic says more.
What nothing reproduces is left to signs: the course of the error over positions and layers, a loss of ln V, …
Nothing is looked up about the model under test but its traces and its weights, and a clean comparison has no cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mindport.debug.diagnosis import forward, training
from mindport.debug.diagnosis.cause import Cause, Evidence
from mindport.results import Result
from mindport.tables import Table

SHOWN = 3  # causes that a report tells


@dataclass(frozen=True)
class Diagnosis(Result):
    """Causes, the most likely first; none when nothing is wrong.

    Attributes:
        causes: ranked.
    """

    causes: tuple[Cause, ...]

    @property
    def ok(self) -> bool:
        return not self.causes

    def headline(self) -> str:
        if self.ok:
            return "nothing is wrong: no cause is sought"
        first = self.causes[0]
        return f"{first.where}: {first.says} ({first.evidence})"

    def tables(self) -> tuple[Table, ...]:
        return () if self.ok else (cause_table(self.causes),)


def diagnose(evidence: Evidence) -> Diagnosis:
    """Rank what could have made our side differ from the reference's.

    Args:
        evidence: of the forward pass, the training, or both.
    """
    return Diagnosis(ranked([*forward.explain(evidence), *training.explain(evidence)]))


def ranked(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """The best first; what explains equally much stays in the order in which it was found. One line for each name."""
    best: dict[str, Cause] = {}
    for cause in causes:
        if cause.name not in best or cause.score > best[cause.name].score:
            best[cause.name] = cause
    return tuple(sorted(best.values(), key=lambda cause: -cause.score))


def cause_table(causes: Iterable[Cause], limit: int = SHOWN) -> Table:
    """The first causes, one a line."""
    rows = [(rank, c.says, c.where, c.evidence, c.next_action) for rank, c in enumerate(causes, 1) if rank <= limit]
    return Table("most likely causes", ("", "what is wrong", "where", "how that is known", "what to do next"), rows)
