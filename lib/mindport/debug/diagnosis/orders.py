"""Orders in which the rows of a projection are found: by halves, side by side, head by head."""

from __future__ import annotations

import numpy as np


def by_halves(width: int, heads: int) -> np.ndarray:
    """Which of Meta's rows each of Hugging Face's is: (x0, y0, x1, y1, …) of a head → (x0, x1, …, y0, y1, …)."""
    return np.arange(width).reshape((heads, -1, 2)).swapaxes(1, 2).ravel()


def in_heads(width: int, heads: int, parts: int) -> list[np.ndarray]:
    """The rows of each part, where the parts of one head stand together: q0 k0 v0 q1 k1 v1 …"""
    return list(np.arange(width).reshape((heads, parts, -1)).swapaxes(0, 1).reshape((parts, -1)))


def same_columns(ours: np.ndarray, pool: np.ndarray, limit: float = 1e-4) -> np.ndarray | None:
    """Which column of `pool` each of our columns is; None unless each is one.

    A random sum over the rows stands for a column, so that two sorted lists are compared, not every pair of columns.

    Args:
        ours: (…, columns).
        pool: (…, more columns), the same rows.
        limit: of the difference, over the largest value.
    """
    a, b = ours.reshape((-1, ours.shape[-1])), pool.reshape((-1, pool.shape[-1]))
    if len(a) != len(b):
        return None
    signs = np.random.default_rng(0).standard_normal(len(a))
    mine, theirs = signs @ a, signs @ b
    order = np.argsort(theirs)
    place = np.clip(np.searchsorted(theirs[order], mine), 1, len(order) - 1)
    below, above = order[place - 1], order[place]
    found = np.where(np.abs(theirs[below] - mine) < np.abs(theirs[above] - mine), below, above)
    return found if np.abs(a - b[:, found]).max() <= limit * np.abs(b).max() else None
