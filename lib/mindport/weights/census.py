"""Numbers that are none: NaN and infinities go across exactly, and are said aloud."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.weights.dtypes import code_of

BLOCK = 1 << 17  # values at a time, so that what is looked at stays in the cache
_BITS = {"F32": (np.uint32, 0x7F800000), "F16": (np.uint16, 0x7C00), "BF16": (np.uint16, 0x7F80)}


@dataclass(frozen=True, slots=True)
class NotFinite:
    """A tensor that holds NaN or infinities, and how many."""

    tensor: str
    count: int


def not_finite(x: np.ndarray) -> int:
    """How many values of an array are NaN or infinite: those with all bits of the exponent set."""
    unsigned, exponent = _BITS[code_of(x)]
    bits = np.ascontiguousarray(x).reshape(-1).view(unsigned)
    parts = (bits[start : start + BLOCK] & exponent for start in range(0, bits.size, BLOCK))
    return sum(int(np.count_nonzero(part == exponent)) for part in parts if part.max() == exponent)
