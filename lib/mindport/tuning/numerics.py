"""Whether two contestants computed the same: a benchmark of different computations says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

MISSING = float("nan")  # within no limit


@dataclass(frozen=True)
class Agreement:
    """How far one value of a peer is from ours.

    Attributes:
        peer: the contestant.
        value: what was compared ("dq", "loss 3").
        error: max |ours − peer| / max |peer|; NaN when one of the two does not have it in this shape.
        limit: the largest error at which the two have computed the same.
    """

    peer: str
    value: str
    error: float
    limit: float

    @property
    def ok(self) -> bool:
        """Whether the error is within the limit; NaN is not."""
        return self.error <= self.limit


def agree(
    peer: str, ours: Mapping[str, np.ndarray], its: Mapping[str, np.ndarray], limits: Mapping[str, float]
) -> tuple[Agreement, ...]:
    """Compare every value that either has.

    Args:
        peer: name of the contestant.
        ours, its: the values by name.
        limits: the limit of each value, or of all whose name begins so ("loss" for "loss 3"), "" for the others.
    """
    names = dict.fromkeys((*ours, *its))
    return tuple(Agreement(peer, name, _error(ours.get(name), its.get(name)), _limit(name, limits)) for name in names)


def _error(ours: np.ndarray | None, its: np.ndarray | None) -> float:
    if ours is None or its is None or ours.shape != its.shape:
        return MISSING
    if not ours.size:
        return 0.0
    largest = np.abs(its).max()
    return float(np.abs(ours - its).max() / (largest or 1.0))


def _limit(name: str, limits: Mapping[str, float]) -> float:
    fitting = [start for start in limits if name.startswith(start)]
    return limits[max(fitting, key=len)]
