"""What goes into a diagnosis and what comes out, and the share of a difference that a mistake explains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.parity import metrics
from mindport.parity.rows import Row
from mindport.parity.trace import Trace

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
