"""What tensor parallelism adds between the pieces of a model (Megatron-LM, arXiv:1909.08053).

    Shared        x, which all ranks have, goes into what each computes a part of: the gradient is the sum of theirs
    Summed        each rank has one summand of x: forward the sum; its gradient goes to every rank as it is
    Gathered      each rank has some of the last axis: forward all of it; the gradient is each rank's own part

A layer is Shared, then products with a share of the columns, then ones with the same share of the rows, then Summed.
A gradient function of our own stands in each, since MindSpore's for AllReduce sums the gradients of all ranks, as if
each had a loss of its own. On a CPU they take float32 and float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops

from mindport.model import kernels
from mindport.model.ranks import Ranks


class Shared(nn.Cell):
    """x as it is; its gradient is summed over the group."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.sum = ops.AllReduce(group=group)
        self.used_bprop_inputs: list[int] = []

    def construct(self, x: Tensor) -> Tensor:
        return x

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (self.sum(dout),)


class Summed(nn.Cell):
    """The sum over the group; the gradient as it is."""

    def __init__(self, group: str) -> None:
        super().__init__()
        self.sum = ops.AllReduce(group=group)
        self.used_bprop_inputs: list[int] = []

    def construct(self, x: Tensor) -> Tensor:
        return self.sum(x)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        return (dout,)


class Gathered(nn.Cell):
    """(…, n) of each rank → (…, tp · n), in the order of the ranks."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self.gather, self.swap = ops.AllGather(group=ranks.tp_group), ops.Transpose()
        self.tp, self.rank = ranks.tp, ranks.tp_rank
        self.used_bprop_inputs: list[int] = []

    def construct(self, x: Tensor) -> Tensor:
        width = x.shape[-1]
        parts = self.gather(x.reshape((-1, width))).reshape((self.tp, -1, width))  # along the first axis
        return self.swap(parts, (1, 0, 2)).reshape((*x.shape[:-1], self.tp * width))

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> tuple[Tensor]:
        width = dout.shape[-1] // self.tp
        return (dout[..., self.rank * width : (self.rank + 1) * width],)


class SharedWeights(nn.Cell):
    """A kernel, called as `(x, *weights)`, of an x that each rank has a part of: the weights' gradients are sums."""

    def __init__(self, kernel: nn.Cell, group: str) -> None:
        super().__init__()
        self.kernel, self.shared = kernel, Shared(group)

    def construct(self, x: Tensor, *weights: Tensor) -> Tensor:
        return self.kernel(x, *[self.shared(weight) for weight in weights])


class OwnRows(nn.Cell):
    """Ids of the whole vocabulary → rows of this rank's part of a table, 0 for those of others; then their sum.

    Args:
        ranks: who share the table.
        rows: of this rank's part.
    """

    def __init__(self, ranks: Ranks, rows: int) -> None:
        super().__init__()
        self.gather, self.where, self.sum = ops.Gather(), ops.where, Summed(ranks.tp_group)
        self.all, self.first, self.is_last = ranks.tp * rows, ranks.tp_rank * rows, ranks.tp_rank == ranks.tp - 1
        self.rows = rows

    def construct(self, weight: Tensor, ids: Tensor) -> Tensor:
        own = self.where(ids < 0, ids + self.all, ids) - self.first  # a negative one counts from the end
        mine = own >= 0 if self.is_last else (own >= 0) & (own < self.rows)  # beyond the last is an error, as ever
        rows = self.gather(weight, self.where(mine, own, 0), 0)
        return self.sum(rows * mine.expand_dims(-1).astype(rows.dtype))


class ShareOfLoss(nn.Cell):
    """`kernels.cross_entropy` of logits that each rank has some columns of; called as `(logits (N, V/tp), labels)`.

    What goes from rank to rank is three numbers for each row, never a row. The mean is the same on every rank, and so
    is a label that is no class: each finds it.

    Args:
        ranks: who share the vocabulary.
        rows: of this rank's part.
        ignore_index: the label that does not count.
    """

    def __init__(self, ranks: Ranks, rows: int, ignore_index: int = kernels.IGNORED) -> None:
        super().__init__()
        self.first, self.rows, self.all, self.ignored = ranks.tp_rank * rows, rows, ranks.tp * rows, ignore_index
        self.gather, self.sum = ops.AllGather(group=ranks.tp_group), Summed(ranks.tp_group)
        self.still, self.where, self.pick, self.check = ops.stop_gradient, ops.where, ops.GatherD(), ops.Gather()
        self.exp, self.log, self.float32, self.int32 = ops.Exp(), ops.Log(), ms.float32, ms.int32
        self.max, self.tp = ops.ReduceMax(), ranks.tp

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        counts = labels != self.ignored
        shifted = logits - self.still(self.largest(self.still(logits))).expand_dims(-1)
        own = labels - self.first
        mine = counts & (own >= 0) & (own < self.rows)
        picked = self.pick(shifted, 1, self.where(mine, own, 0).reshape((-1, 1))).reshape((-1,))
        label = self.sum(self.where(mine, picked, 0.0))
        each = self.log(self.sum(self.exp(shifted).sum(-1))) - label
        return self.where(counts, each, 0.0).sum() / counts.astype(self.float32).sum()

    def largest(self, logits: Tensor) -> Tensor:
        """Of each row, over all ranks, (N,); by a gather, since AllReduce on a CPU knows sums only."""
        return self.max(self.gather(self.max(logits, -1)).reshape((self.tp, -1)), 0)


class SplitNorm(nn.Cell):
    """`kernels.global_norm` of tensors of which each rank holds some in part: (tensors) → (), the same on every rank.

    Args:
        split: of each tensor, whether it is a part; the others are whole, and alike, on every rank.
        group: whose parts make up the whole.
    """

    def __init__(self, split: Sequence[bool], group: str) -> None:
        super().__init__()
        self.parts = tuple(i for i, is_part in enumerate(split) if is_part)
        self.wholes = tuple(i for i, is_part in enumerate(split) if not is_part)
        self.norm, self.sum, self.sqrt = kernels.global_norm(), ops.AllReduce(group=group), ops.Sqrt()

    def construct(self, tensors: Any) -> Tensor:
        square = 0.0
        if self.parts:
            norm = self.norm(tuple([tensors[i] for i in self.parts]))
            square = self.sum(norm * norm)
        if self.wholes:
            norm = self.norm(tuple([tensors[i] for i in self.wholes]))
            square = square + norm * norm
        return self.sqrt(square)
