"""Cross entropy of a token's logits, averaged over the labels that count."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from mindport.model.kernels.native import Native, native
from mindport.model.kernels.selector import Kernel, select

IGNORED = -100


def cross_entropy(*, ignore_index: int = IGNORED) -> Kernel:
    """Mean of −log softmax(logits)[label]; called as `(logits, labels)`: (N, V), int32 (N,) → ().

    Rows whose label is `ignore_index` do not count, and have no gradient; when none counts the mean is NaN. A label
    that is no class stops with a RuntimeError. PyTorch does all three so.
    """
    paths = {"ascend": Ascend, "cpu": Cpu, "reference": Reference}
    return select("cross_entropy", paths, ignore_index=ignore_index)


class Reference(Kernel):
    """log softmax and a gather: `ops.cross_entropy` takes longer on a CPU (`mindport bench knobs` has both)."""

    def __init__(self, *, ignore_index: int) -> None:
        super().__init__()
        self.ignore_index, self.float32 = ignore_index, ms.float32
        self.log_softmax, self.pick, self.where = ops.LogSoftmax(-1), ops.GatherD(), ops.where

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        counts = labels != self.ignore_index
        rows = self.where(counts, labels, 0)  # any class for an ignored label
        rows = self.where(rows < 0, logits.shape[1], rows)  # GatherD would count these from the end
        picked = self.pick(self.log_softmax(logits.astype(self.float32)), 1, rows.reshape((-1, 1))).reshape((-1,))
        return -self.where(counts, picked, 0.0).sum() / counts.astype(self.float32).sum()


class Ascend(Kernel):
    """`ops.cross_entropy`. Checked here by a fake that records its arguments, never run."""

    def __init__(self, *, ignore_index: int) -> None:
        super().__init__()
        self.ignore_index, self.float32, self.loss = ignore_index, ms.float32, ops.cross_entropy

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.loss(logits.astype(self.float32), labels, ignore_index=self.ignore_index)


class Cpu(Native):
    """One pass over the logits in C++ (cpp/cross_entropy.cc) and one for the gradient; (N, 2) numbers are kept."""

    def __init__(self, *, ignore_index: int) -> None:
        super().__init__()
        self.float32, self.ignored = ms.float32, Tensor([ignore_index], ms.int32)
        grad = native("cross_entropy_grad", lambda logits, *rest: logits)

        def gradient(logits: Any, labels: Any, ignored: Any, out: Any, dout: Any) -> Any:
            return grad(logits, labels, ignored, out[1], dout[0]), labels, ignored

        self.loss = native("cross_entropy", lambda logits, *rest: ((1,), (logits[0], 2)), gradient, outputs=2)

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.loss(logits.astype(self.float32), labels, self.ignored)[0].reshape(())
