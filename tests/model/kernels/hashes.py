"""Dropout's mask once more, in NumPy: what both paths are held to."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor

from mindport.model.kernels import Place

SEED, PASSES, NUMBER = -7, 3, 2  # of the masks of the tests


def mix(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x = x ^ a
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x7FEB352D)
    x = ((x ^ x >> np.uint32(15)) + b) * np.uint32(0x846CA68B)
    return x ^ x >> np.uint32(16)


def kept(rows: int, columns: int, p: float, seed: int = SEED, passes: int = PASSES, number: int = NUMBER) -> np.ndarray:
    seed, passes, number = (np.array([n & 0xFFFFFFFF], np.uint32) for n in (seed, passes, number))
    first = mix(passes, seed, number)
    second = mix(number, first, seed)
    row = np.arange(rows, dtype=np.uint32)[:, None]
    one = mix(row, first, second)
    hashed = mix(np.arange(columns, dtype=np.uint32), one, mix(one, second, row))
    return hashed >> np.uint32(8) >= round(p * 2**24)


def factors(rows: int, columns: int, p: float, **where: int) -> np.ndarray:
    return np.where(kept(rows, columns, p, **where), 2**24 / (2**24 - round(p * 2**24)), 0)


def state(seed: int = SEED, passes: int = PASSES) -> np.ndarray:
    return np.array([seed, passes], np.int32)


def place(seed: int = SEED, passes: int = PASSES, number: int = NUMBER, **among: int) -> Place:
    """`among`: which part of the batch, and which share of its sequences' rows."""
    held = Parameter(Tensor(state(seed, passes), ms.int32), name="random.state", requires_grad=False)
    return Place(held, number, **among)


def keep(p: float) -> tuple[np.ndarray, np.ndarray]:
    """The two inputs of a C++ operator that say what is kept."""
    return state(), np.array([NUMBER, round(p * 2**24), 0, 1, 0], np.int32)
