"""Root-mean-square norm over the last axis (arXiv:1910.07467)."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from mindport.model.kernels.selector import Kernel, select


def rms_norm(*, eps: float, offset: int = 0) -> Kernel:
    """(offset + weight) · x / sqrt(mean(x²) + eps); called as `(x, weight)`: (…, d), (d,) → (…, d)."""
    return select("rms_norm", {"ascend": Ascend, "reference": Reference}, eps=eps, offset=offset)


class Reference(Kernel):
    """Normalised in float32, cast back, then weighted; with an offset, weighted in float32 and then cast back.

    Those are the reference's two orders, and half precision can tell them apart.
    """

    def __init__(self, *, eps: float, offset: int = 0) -> None:
        super().__init__()
        self.eps, self.offset, self.float32 = eps, offset, ms.float32
        self.mean, self.rsqrt = ops.ReduceMean(keep_dims=True), ops.Rsqrt()

    def construct(self, x: Tensor, weight: Tensor) -> Tensor:
        wide = x.astype(self.float32)
        wide = wide * self.rsqrt(self.mean(wide * wide, -1) + self.eps)
        if self.offset:
            return (wide * (self.offset + weight.astype(self.float32))).astype(x.dtype)
        return weight * wide.astype(x.dtype)


class Ascend(Kernel):
    """`ops.rms_norm`. Checked here by a fake that records its arguments, never run."""

    def __init__(self, *, eps: float, offset: int = 0) -> None:
        super().__init__()
        self.eps, self.norm = eps, ops.rms_norm

    @staticmethod
    def refuses(*, eps: float, offset: int = 0) -> str | None:
        """The operator multiplies by the weight as it is, in the weight's own precision."""
        return f"a weight without offset, not {offset} + weight" if offset else None

    def construct(self, x: Tensor, weight: Tensor) -> Any:
        return self.norm(x, weight, self.eps)[0]
