"""What ranks tell each other besides gradients: numbers, agreements, digests, arrays in parts.

All of it goes as bits through AllGather, the one collective that a CPU has for more than float32, and is worked out
by each rank alone: sums are in float64, in the order of the ranks, so every rank has the same ones. A rank that is
alone talks to nobody.

A rank waits for the others as long as MS_NODE_TIMEOUT says (seconds; 30 without it), then its process fails.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from mindport.model.ranks import Ranks

Axis = Literal["dp", "tp", "all"]  # with whom: the same share of other replicas, the other shares of this one, everybody


def gather(ranks: Ranks, array: np.ndarray, axis: Axis = "all") -> np.ndarray:
    """The arrays of all ranks along an axis, (ranks, *shape), in their order; of equal shape and dtype everywhere."""
    size = {"dp": ranks.dp, "tp": ranks.tp, "all": ranks.size}[axis]
    if size == 1:
        return array[None]
    from mindspore import Tensor

    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    words = np.zeros(-(-raw.size // 4) * 4, np.uint8)
    words[: raw.size] = raw
    told = _gather(_group(ranks, axis))(Tensor(words.view(np.int32))).asnumpy()
    told = told.view(np.uint8).reshape(size, words.size)[:, : raw.size]
    return np.ascontiguousarray(told).view(array.dtype).reshape(size, *array.shape)


def total(ranks: Ranks, values: Sequence[float], axis: Axis = "dp") -> list[float]:
    """The sum of each value over an axis; whole numbers stay exact up to 2⁵³."""
    return gather(ranks, np.asarray(values, np.float64), axis).sum(0).tolist()


def most(ranks: Ranks, values: Sequence[float]) -> list[float]:
    """The largest of each value over all ranks: how they agree on what one of them has heard."""
    return gather(ranks, np.asarray(values, np.float64)).max(0).tolist()


def wait(ranks: Ranks) -> None:
    """Until every rank is here."""
    gather(ranks, np.zeros(1, np.int32))


@contextlib.contextmanager
def after_first(ranks: Ranks) -> Iterator[None]:
    """Run the block on the first rank, then on the others, which find what it has made.

    Where it raises on the first rank, the others wait until that process has ended, and whoever started them ends them.
    """
    if not ranks.is_first:
        wait(ranks)
    yield
    if ranks.is_first:
        wait(ranks)


def _group(ranks: Ranks, axis: Axis) -> str:
    if axis != "all":
        return {"dp": ranks.dp_group, "tp": ranks.tp_group}[axis]
    if 1 in (ranks.dp, ranks.tp):
        return ranks.dp_group or ranks.tp_group
    from mindspore.communication import GlobalComm

    return GlobalComm.WORLD_COMM_GROUP


@functools.cache
def _gather(group: str) -> Any:
    from mindspore import ops

    return ops.AllGather(group=group)
