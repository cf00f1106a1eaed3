"""Gradients added up over the replicas of a model: many small ones in one message.

A message costs about the same whether it brings four bytes or four thousand, and most parameters of a transformer are
small: norms and biases. So neighbours are laid end to end until a bucket is full, and the bucket is one AllReduce.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mindspore import Tensor, nn, ops

FLOAT, MEBI = 4, 2**20  # bytes
Shape = tuple[int, ...]


def partition(sizes: Sequence[int], limit: float) -> tuple[tuple[int, ...], ...]:
    """Which arrays go together: numbers of neighbours, in order, whose sizes add up to `limit` at most.

    An array that is larger goes alone; with a limit of 0 each does.
    """
    buckets: list[list[int]] = []
    room = -1.0
    for index, size in enumerate(sizes):
        if size > room:
            buckets.append([])
            room = limit
        buckets[-1].append(index)
        room -= size
    return tuple(map(tuple, buckets))


class Bucket(nn.Cell):
    """arrays → their sums over a group of ranks, in one message.

    Args:
        shapes: of the arrays, all float32.
        group: MindSpore's name of the ranks.
    """

    def __init__(self, shapes: Sequence[Shape], group: str) -> None:
        super().__init__()
        ends = list(itertools.accumulate(map(math.prod, shapes)))
        self.places = tuple(zip([0, *ends[:-1]], ends, map(tuple, shapes), strict=True))
        self.reduce, self.concat = ops.AllReduce(group=group), ops.Concat()

    def construct(self, arrays: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        if len(self.places) == 1:
            return (self.reduce(arrays[0]),)
        flat = ()
        for array in arrays:
            flat = (*flat, array.reshape((-1,)))
        sums, parts = self.reduce(self.concat(flat)), ()
        for begin, end, shape in self.places:
            parts = (*parts, sums[begin:end].reshape(shape))
        return parts


class Buckets(nn.Cell):
    """(gradients, scalars) → the same, added up over the replicas; in PyNative and Graph mode.

    The scalars go with the first gradients. The messages go one after the other, in the same order on every rank:
    without the edges between them a graph is free to start them in another one, and unlike things would be added.

    Args:
        shapes: of the gradients.
        group: MindSpore's name of the ranks that have the same share of the weights.
        mebibytes: of a bucket; 0: each gradient alone.
        scalars: how many there are.

    Attributes:
        messages: that one call sends.
    """

    def __init__(self, shapes: Sequence[Shape], group: str, mebibytes: float = 16.0, scalars: int = 2) -> None:
        super().__init__()
        shapes = [tuple(shape) for shape in shapes]
        self.chosen = partition([FLOAT * math.prod(shape) for shape in shapes], mebibytes * MEBI)
        riding = [[()] * scalars, *[[]] * len(self.chosen)]
        self.buckets = nn.CellList([Bucket([*ride, *(shapes[i] for i in which)], group)
                                    for ride, which in zip(riding, self.chosen, strict=False)])  # fmt: skip
        self.scalars, self.messages, self.depend = scalars, len(self.chosen), ops.Depend()

    def construct(
        self, gradients: tuple[Tensor, ...], scalars: tuple[Tensor, ...]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        sums = ()
        for which, bucket in zip(self.chosen, self.buckets):  # noqa: B905  # graph mode knows no strict
            arrays = () if sums else scalars
            for index in which:
                arrays = (*arrays, gradients[index])
            if sums:
                arrays = (self.depend(arrays[0], sums[-1]), *arrays[1:])
            sums = (*sums, *bucket(arrays))
        return sums[self.scalars :], sums[: self.scalars]
