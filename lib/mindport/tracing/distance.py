"""How far two arrays are apart: absolute, relative, by direction and by position; NaN and infinities are counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.parity.metrics import TINY

FLOOR = 1e-4  # of the largest value: a position of zeros is not held to nothing
EXACT = 2.0**53  # from here on, neighbouring whole numbers are one float64
HIDDEN = -1e4  # what an additive mask holds, or less: -10000, -1e9, the least number of its precision, -inf


@dataclass(frozen=True)
class Distance:
    """One array from another.

    Attributes:
        scale: the largest finite value of the reference.
        error: the largest absolute difference.
        relative: the largest, over all units, of: error there / largest value of the reference there.
        cosine: of the angle between the two, as long vectors; None where one of them is zero.
        at: where `relative` is largest.
        positions: `relative` at each position of a sequence; empty where there are none.
    """

    scale: float
    error: float
    relative: float
    cosine: float | None
    at: tuple[int, ...]
    positions: tuple[float, ...]


INFINITE = float("inf")
NOWHERE = Distance(INFINITE, INFINITE, INFINITE, None, (), ())  # of shapes that differ


def distance(
    other: np.ndarray, reference: np.ndarray, *, sequence: bool = False, real: np.ndarray | None = None,
    whole: float | None = None,
) -> Distance:  # fmt: skip
    """Measure `other` against `reference`, of the same shape.

    Args:
        other, reference: of any shape and dtype.
        sequence: the first two axes are (B, T), and each of the B·T positions is a unit; else each of the B samples is.
        real: (B, T) false where there is padding, which does not count.
        whole: the array is one unit (a gradient), and its scale is at least this.
    """
    a, b = _wide(reference, real), _wide(other, real)
    with np.errstate(invalid="ignore"):
        apart = np.where(a == b, 0.0, np.abs(b - a))
    if all(x.dtype.kind in "iu" for x in (reference, other)):
        apart = np.where((apart == 0) & (reference != other) & (np.abs(a) >= EXACT), 1.0, apart)
    apart = np.where(np.isfinite(apart), apart, np.inf)
    finite = np.abs(np.where(np.isfinite(a), a, 0.0))
    each = apart / _units(finite, sequence, whole)
    at = tuple(int(i) for i in np.unravel_index(int(each.argmax()), each.shape)) if each.size else ()
    return Distance(
        scale=float(finite.max(initial=0.0)),
        error=float(apart.max(initial=0.0)),
        relative=float(each.max(initial=0.0)),
        cosine=_cosine(a, b),
        at=at,
        positions=tuple(np.moveaxis(each, 1, 0).reshape(each.shape[1], -1).max(-1).tolist()) if sequence else (),
    )


def not_finite(a: np.ndarray, b: np.ndarray, real: np.ndarray | None = None) -> str:
    """Counts of NaN and infinities in words, and where the first one is; equal ones in the same places are none."""
    a, b = _wide(a, real), _wide(b, real)
    found = (~np.isfinite(a) | ~np.isfinite(b)) & (a != b)
    if not found.any():
        return ""
    counts = {"NaN": [int(np.isnan(x).sum()) for x in (a, b)], "infinite": [int(np.isinf(x).sum()) for x in (a, b)]}
    said = ", ".join(f"{word} {one} in A and {other} in B" for word, (one, other) in counts.items() if one or other)
    return f"{said}, first at {tuple(int(axis[0]) for axis in np.nonzero(found))}"


def _wide(x: np.ndarray, real: np.ndarray | None) -> np.ndarray:
    """In float64, 0 where there is padding. An additive mask, which is 0 or hides, becomes 0 or -inf: every author
    hides with another number."""
    wide = x.astype(np.float64)
    if real is not None:
        wide = np.where(real.reshape(*real.shape, *[1] * (x.ndim - 2)), wide, 0.0)
    return np.where(wide == 0, 0.0, -np.inf) if _is_mask(wide) and x.dtype.kind not in "iub" else wide


def _is_mask(wide: np.ndarray) -> bool:
    """Nothing but 0 and what hides: one number, or two where a mask was added to another. Anything else that is far
    below 0, say a sum of log-probabilities, is a value."""
    hides = wide <= HIDDEN
    seen = hides.any() and (wide == 0).any() and (hides | (wide == 0)).all()
    return bool(wide.ndim > 1 and seen and len(np.unique(wide[hides])) <= 2)


def _units(finite: np.ndarray, sequence: bool, whole: float | None) -> np.ndarray:
    """The value that an error is held against, at each place."""
    top = float(finite.max(initial=0.0))
    if whole is not None or finite.ndim < 2:
        return np.full([1] * finite.ndim, max(top, whole or 0.0, TINY))
    axes = tuple(range(2 if sequence else 1, finite.ndim))
    return np.maximum(finite.max(axes, keepdims=True, initial=0.0), max(FLOOR * top, TINY))


def _cosine(a: np.ndarray, b: np.ndarray) -> float | None:
    both = np.isfinite(a) & np.isfinite(b)
    x, y = a[both], b[both]
    length = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / length if length else None
