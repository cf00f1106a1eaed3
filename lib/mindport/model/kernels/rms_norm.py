"""Root-mean-square norm over the last axis (arXiv:1910.07467)."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from mindport.model.kernels.selector import Kernel, select


def rms_norm(*, eps: float) -> Kernel:
    """weight · x / sqrt(mean(x²) + eps); called as `(x, weight)`: (…, d), (d,) → (…, d)."""
    return select("rms_norm", {"ascend": Ascend, "reference": Reference}, eps=eps)


class Reference(Kernel):
    """Normalised in float32, cast back, then weighted: the reference's order, which half precision can tell."""

    def __init__(self, *, eps: float) -> None:
        super().__init__()
        self.eps, self.float32 = eps, ms.float32
        self.mean, self.rsqrt = ops.ReduceMean(keep_dims=True), ops.Rsqrt()

    def construct(self, x: Tensor, weight: Tensor) -> Tensor:
        wide = x.astype(self.float32)
        wide = wide * self.rsqrt(self.mean(wide * wide, -1) + self.eps)
        return weight * wide.astype(x.dtype)


class Ascend(Kernel):
    """`ops.rms_norm`. Checked here by a fake that records its arguments, never run."""

    def __init__(self, *, eps: float) -> None:
        super().__init__()
        self.eps, self.norm = eps, ops.rms_norm

    def construct(self, x: Tensor, weight: Tensor) -> Any:
        return self.norm(x, weight, self.eps)[0]
