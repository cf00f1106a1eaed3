"""A rank's part in the cross entropy of logits whose columns are shared by several."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from mindport.model.kernels.cross_entropy import IGNORED
from mindport.model.kernels.native import Native, native
from mindport.model.kernels.selector import Kernel, select


def cross_entropy_share(*, first: int, classes: int, ignore_index: int = IGNORED) -> Kernel:
    """What a rank can say of each row, and its part of the gradient.

    Called as `(logits, labels)`, (N, v) and int32 (N,) → (N, 3): the largest logit, the logarithm of the sum of the
    exponentials above it, and the label's logit, 0 where that is another rank's or does not count. Its method
    `gradient(logits, labels, saved, d_mean)` takes the first two numbers of all ranks together, (N, 2), and what the
    mean's gradient is, () → (N, v). Neither has a gradient of its own.

    Args:
        first: the class of the first column.
        classes: of all ranks; a label beyond stops every rank with a RuntimeError.
        ignore_index: the label that does not count.
    """
    return select("cross_entropy_share", {"cpu": Cpu, "reference": Reference}, first=first, classes=classes,
                  ignore_index=ignore_index)  # fmt: skip


class Reference(Kernel):
    """In plain operators."""

    def __init__(self, *, first: int, classes: int, ignore_index: int) -> None:
        super().__init__()
        self.first, self.classes, self.ignored = first, classes, ignore_index
        self.exp, self.log, self.max, self.where, self.pick = (
            ops.Exp(),
            ops.Log(),
            ops.ReduceMax(),
            ops.where,
            ops.GatherD(),
        )
        self.lowest = Tensor(np.finfo(np.float32).min)
        self.concat, self.arange, self.float32 = ops.Concat(-1), ops.arange, ms.float32

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        counts, width = labels != self.ignored, logits.shape[1]
        own = labels - self.first
        mine = counts & (own >= 0) & (own < width)
        stop = self.where(counts & ((labels < 0) | (labels >= self.classes)), width, 0)  # GatherD refuses it
        label = self.pick(logits, 1, self.where(mine, own, stop).reshape((-1, 1)))
        top = self.max(logits, -1).expand_dims(-1)
        top = self.where(top < self.lowest, self.lowest, top)  # from -inf nothing can be subtracted
        total = self.log(self.exp(logits - top).sum(-1)).expand_dims(-1)
        return self.concat((top, total, self.where(mine.expand_dims(-1), label, 0.0)))

    def gradient(self, logits: Tensor, labels: Tensor, saved: Tensor, d_mean: Tensor) -> Tensor:
        counts = (labels != self.ignored).expand_dims(-1)
        scale = d_mean / counts.astype(self.float32).sum()
        column = self.arange(logits.shape[1]).expand_dims(0)
        softmax = self.exp(logits - saved[:, :1] - saved[:, 1:])
        onehot = (labels - self.first).expand_dims(-1) == column
        return self.where(counts, (softmax - onehot.astype(self.float32)) * scale, 0.0)


class Cpu(Native):
    """One pass over the logits in C++ (cpp/cross_entropy.cc) and one for the gradient."""

    def __init__(self, *, first: int, classes: int, ignore_index: int) -> None:
        super().__init__()
        self.ignored, self.share = Tensor([ignore_index], ms.int32), Tensor([first, classes], ms.int32)
        self.part = native("cross_entropy_share", lambda logits, *rest: (logits[0], 3))
        self.back = native("cross_entropy_share_grad", lambda logits, *rest: logits)

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.part(logits, labels, self.ignored, self.share)

    def gradient(self, logits: Tensor, labels: Tensor, saved: Tensor, d_mean: Tensor) -> Any:
        return self.back(logits, labels, self.ignored, self.share, saved, d_mean.reshape((1,)))
