"""Which positions of a sequence are real: what stands under padding is nobody's business."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.errors import UsageError
from mindport.parity.trace import Trace
from mindport.tracing.names import split

IDS, MASK = "ids", "[attention_mask]"
PADDED = (2, 3)  # dimensions of values that have (B, T) in front; with four, (B, heads, …) may look the same


@dataclass(frozen=True)
class Padding:
    """The sequence of a trace.

    Attributes:
        shape: (B, T), None when the input is no sequence.
        real: (B, T) false where there is padding; None when there is none.
        says: what is left out, and by which array.
    """

    shape: tuple[int, ...] | None = None
    real: np.ndarray | None = None
    says: str = ""

    def is_sequence(self, shape: tuple[int, ...]) -> bool:
        """Whether a value has features at each of the B·T positions."""
        return len(shape) > 2 and shape[:2] == self.shape

    def of(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """The mask, where a value has positions."""
        return self.real if len(shape) in PADDED and shape[:2] == self.shape else None


def find_padding(trace: Trace, mask: str | None = None, pad_id: int | None = None) -> Padding:
    """The padding that an argument named attention_mask says, or the array `mask`, or the token `pad_id`.

    Raises:
        UsageError: there is no such array, or no ids.
    """
    given = {name: x for name, x in trace.arrays.items() if name == IDS or split(name)[1].startswith(".")}
    ids = next((name for name, x in given.items() if _is_ids(name, x)), None)
    if pad_id is not None:
        if ids is None:
            raise UsageError("a padding token needs ids, and A has none", where="pad_id", got=pad_id)
        return _padding(trace[ids] != pad_id, f"{ids} is {pad_id}")
    if mask is not None:
        if mask not in trace or trace[mask].ndim != 2:
            raise UsageError("A has no such mask of shape (B, T)", where="mask", got=mask, expected=list(given)[:8])
        return _padding(trace[mask] != 0, f"{mask} is 0")
    for name, x in given.items():
        if name.endswith(MASK) and x.ndim == 2 and np.isin(x, (0, 1)).all():
            return _padding(x != 0, f"{name} is 0")
    return Padding(trace[ids].shape if ids else None)


def _is_ids(name: str, x: np.ndarray) -> bool:
    kind, _ = split(name)
    return x.ndim == 2 and x.dtype.kind in "iu" and kind in ("", "in") and not name.endswith(MASK)


def _padding(real: np.ndarray, where: str) -> Padding:
    out = int((~real).sum())
    says = f"{out} of {real.size} positions, where {where}, in values of 2 or 3 dimensions that begin with {real.shape}"
    return Padding(real.shape, real if out else None, says if out else "")
