"""What tensor parallelism adds between the pieces of a model (Megatron-LM, arXiv:1909.08053).

    Shared        x, which all ranks have, goes into what each computes a part of: the gradient is the sum of theirs
    Summed        each rank has one summand of x: forward the sum; its gradient goes to every rank as it is
    Gathered      each rank has some of the last axis: forward all of it; the gradient is each rank's own part

A layer is Shared, then products with a share of the columns, then ones with the same share of the rows, then Summed.
A gradient function of our own stands in each, since MindSpore's for AllReduce sums the gradients of all ranks, as if
each had a loss of its own.

AllReduce is all there is: on a CPU it takes float32 and float16, and sums only, while AllGather knows the group of all
processes only (MindSpore 2.10; tests/model/test_split.py holds all three).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops

from mindport.model import kernels
from mindport.ranks import Ranks


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
    """(…, n) of each rank → (…, tp · n), in the order of the ranks: a sum, to which each gives zeros for the others."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self.sum, self.concat, self.zeros = ops.AllReduce(group=ranks.tp_group), ops.Concat(-1), ops.ZerosLike()
        self.tp, self.rank = ranks.tp, ranks.tp_rank
        self.used_bprop_inputs: list[int] = []

    def construct(self, x: Tensor) -> Tensor:
        others = self.zeros(x)
        return self.sum(self.concat([x if rank == self.rank else others for rank in range(self.tp)]))

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


class OwnClasses(nn.Cell):
    """Numbers of the whole vocabulary → those of this rank's part, and which of them are in it.

    The others become 0, and one that is no class of any rank becomes the first beyond the part: whoever looks it up is
    stopped, on every rank at once. (Were it on one alone, the others would wait for it in their next collective.)

    Args:
        ranks: who share the vocabulary.
        rows: of this rank's part.
    """

    def __init__(self, ranks: Ranks, rows: int) -> None:
        super().__init__()
        self.all, self.first, self.rows, self.where = ranks.tp * rows, ranks.tp_rank * rows, rows, ops.where

    def construct(self, number: Tensor) -> tuple[Tensor, Tensor]:
        own = number - self.first
        mine = (own >= 0) & (own < self.rows)
        stop = self.where((number < 0) | (number >= self.all), self.rows, 0)
        return self.where(mine, own, stop), mine


class OwnRows(nn.Cell):
    """(table, ids) → rows of the table that the ranks share; the table is this rank's part of it.

    A negative id is an error here: no rank's table has the end from which a whole one counts.
    """

    def __init__(self, ranks: Ranks, rows: int) -> None:
        super().__init__()
        self.own, self.gather, self.sum = OwnClasses(ranks, rows), ops.Gather(), Summed(ranks.tp_group)

    def construct(self, table: Tensor, ids: Tensor) -> Tensor:
        own, mine = self.own(ids)
        rows = self.gather(table, own, 0)
        return self.sum(rows * mine.expand_dims(-1).astype(rows.dtype))


class ShareOfLoss(nn.Cell):
    """`kernels.cross_entropy` of logits that each rank has some columns of; called as `(logits (N, V/tp), labels)`.

    What goes from rank to rank is three numbers for each row, never a row. The mean is the same on every rank.

    Args:
        ranks: who share the vocabulary.
        rows: of this rank's part.
    """

    def __init__(self, ranks: Ranks, rows: int) -> None:
        super().__init__()
        self.both = MeanAndSums(ranks, rows)

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.both(logits, labels)[0]


class MeanAndSums(nn.Cell):
    """The mean (), and what its gradient needs of each row: the largest logit, and the logarithm of the sum (N, 2)."""

    def __init__(self, ranks: Ranks, rows: int) -> None:
        super().__init__()
        self.part = kernels.cross_entropy_share(first=ranks.tp_rank * rows, classes=ranks.tp * rows)
        self.gather, self.tp, self.ignored = Gathered(ranks), ranks.tp, kernels.IGNORED
        self.exp, self.log, self.max = ops.Exp(), ops.Log(), ops.ReduceMax()
        self.where, self.concat = ops.where, ops.Concat(-1)
        self.zeros, self.float32 = ops.ZerosLike(), ms.float32
        # float32's exp and log are a last digit low on a CPU, in each row alike, so that no mean evens it out
        self.wide = ms.float64 if ms.get_context("device_target") == "CPU" else ms.float32

    def construct(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        said = self.gather(self.part(logits, labels)).reshape((-1, self.tp, 3)).astype(self.wide)
        tops, sums, label = said[:, :, 0], said[:, :, 1], said[:, :, 2].sum(-1)
        top = self.max(tops, -1)
        log_sum = self.log(self.exp(tops - top.expand_dims(-1) + sums).sum(-1))
        counts = labels != self.ignored
        losses = self.where(counts, log_sum + (top - label), 0.0)
        mean = losses.sum() / counts.astype(self.wide).sum()
        return mean.astype(self.float32), self.concat((top.expand_dims(-1), log_sum.expand_dims(-1))).astype(
            self.float32
        )

    def bprop(self, logits: Tensor, labels: Tensor, out: Any, dout: Any) -> tuple[Tensor, Tensor]:
        return self.part.gradient(logits, labels, out[1], dout[0]), self.zeros(labels)


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
