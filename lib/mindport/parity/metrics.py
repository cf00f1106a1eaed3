"""Distances between arrays of shape (…, T, features), in float64."""

from __future__ import annotations

import numpy as np

TINY = 1e-30


def largest(x: np.ndarray) -> float:
    """The largest absolute value; infinity when something is not finite."""
    return float(np.abs(x).max(initial=0.0)) if np.isfinite(x).all() else float("inf")


def error(ours: np.ndarray, reference: np.ndarray) -> float:
    """The largest absolute difference."""
    return largest(ours.astype(np.float64) - reference)


def relative(ours: np.ndarray, reference: np.ndarray) -> float:
    """The largest, over all positions, of: error at the position / largest value of the reference there."""
    return float(_each(ours, reference).max(initial=0.0))


def by_position(ours: np.ndarray, reference: np.ndarray) -> tuple[float, ...]:
    """The same, kept apart for each of the T positions."""
    each = _each(ours, reference)
    return tuple(each.reshape(-1, each.shape[-1]).max(0).tolist())


def cosine(ours: np.ndarray, reference: np.ndarray) -> float:
    """The cosine of the angle between the two, as one long vector each."""
    a, b = ours.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    return float(a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), TINY))


def _each(ours: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """(B, T, …, features) → (B, T); (T, features) → (T,)."""
    difference = np.abs(ours.astype(np.float64) - reference).max(-1)
    found = difference / np.maximum(np.abs(reference).max(-1), TINY)
    found = np.where(np.isfinite(found), found, np.inf)
    return found.reshape((*found.shape[:2], -1)).max(-1) if found.ndim > 2 else found
