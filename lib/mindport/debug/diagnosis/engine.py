"""diagnose(evidence): what is wrong, how that is known, and what to do next.

*Explain by reproducing*: a trace holds what each module was given and what it made, so a suspected mistake is a small
function that computes what the value would be under it. Where that is our value to rounding, no heuristic says more.
What nothing reproduces is left to signs: the course of the error over positions and layers, a loss of ln V, …
Nothing is looked up about the model under test but its traces and its weights, and a clean comparison has no cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.parity import metrics
from mindport.parity.rows import Row
from mindport.parity.trace import Trace
from mindport.results import Result
from mindport.tables import Table

SHOWN = 3  # causes that a report tells
ROUNDING = 1e-3  # of the difference: what a right explanation leaves where large values were rounded on the way


@dataclass(frozen=True)
class Evidence:
    """What is known; a diagnosis uses what is there.

    Attributes:
        reference, ours: traces of one forward pass.
        rows: their comparison, in the order of execution.
        directory: our MindPort directory, for its weights.
        training_reference, training_ours: traces of the same training steps.
        training_again: a second run of ours.
    """

    reference: Trace | None = None
    ours: Trace | None = None
    rows: tuple[Row, ...] = ()
    directory: Path | None = None
    training_reference: Trace | None = None
    training_ours: Trace | None = None
    training_again: Trace | None = None


@dataclass(frozen=True)
class Cause:
    """One mistake that would look like this.

    Attributes:
        name: short and fixed, for programs.
        says: what is wrong, in a sentence.
        where: the value or module.
        evidence: the figures that speak for it.
        next_action: what to do next.
        score: the share of the difference that it explains; signs, which explain nothing, have less than ½.
    """

    name: str
    says: str
    where: str
    evidence: str
    next_action: str
    score: float


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
    from mindport.debug.diagnosis import forward, training  # explain in the terms of this file

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


def explained(ours: np.ndarray, right: np.ndarray, would_be: np.ndarray, limit: float = 0.0) -> float:
    """The share of the difference between `ours` and `right` that a mistake explains which makes `would_be`.

    1 when it makes our value to rounding; 0 when it makes another one, or changes nothing: a mistake that this input
    cannot show is no explanation.

    Args:
        ours, right, would_be: (…, T, features).
        limit: the relative error that rounding may make.
    """
    if not ours.shape == right.shape == would_be.shape:
        return 0.0
    apart, left = metrics.relative(ours, right), distance(ours, would_be, right)
    if not 0 < apart < float("inf") or metrics.relative(would_be, right) <= limit:
        return 0.0
    return 1.0 if left <= max(limit, ROUNDING * apart) else max(0.0, 1 - left / apart)


def distance(one: np.ndarray, other: np.ndarray, right: np.ndarray) -> float:
    """The largest difference at a position over the largest right value there: on one scale, whatever is compared."""
    return metrics.relative(right + (one - other), right)
