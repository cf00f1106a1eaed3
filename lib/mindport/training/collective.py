"""What ranks tell each other besides gradients: numbers, agreements, digests, arrays in parts.

All of it goes as bits, and is worked out by each rank alone: sums are in float64, in the order of the ranks, so every
rank has the same ones. A rank that is alone talks to nobody.

AllReduce carries it, the one collective that a CPU has for some of the ranks: 16 bits at a time are whole numbers in
float32, and stay what they are when the zeros of the others are added.

A rank waits for the others as long as MS_CPU_COMM_OP_TIMEOUT says (in seconds; `mindport.parallel.launch` sets it), or
MS_NODE_TIMEOUT where that is not set, which is 30 without a word; then its process fails.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from mindport.ranks import Ranks

Axis = Literal["dp", "tp", "all"]  # with whom: this share in other replicas, the other shares of this one, everybody


def gather(ranks: Ranks, array: np.ndarray, axis: Axis = "all") -> np.ndarray:
    """The arrays of all ranks along an axis, (ranks, *shape), in their order; of equal shape and dtype everywhere."""
    places = {"dp": (ranks.dp, ranks.dp_rank), "tp": (ranks.tp, ranks.tp_rank), "all": (ranks.size, ranks.rank)}
    size, mine = places[axis]
    if size == 1:
        return array[None]
    from mindspore import Tensor

    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    padded = np.zeros(raw.size + raw.size % 2, np.uint8)
    padded[: raw.size] = raw
    halves = np.zeros((size, padded.size // 2), np.float32)
    halves[mine] = padded.view(np.uint16)
    told = _sum(_group(ranks, axis))(Tensor(halves)).asnumpy().astype(np.uint16).view(np.uint8)
    return np.ascontiguousarray(told[:, : raw.size]).view(array.dtype).reshape(size, *array.shape)


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
def _sum(group: str) -> Any:
    from mindspore import ops

    return ops.AllReduce(group=group)
