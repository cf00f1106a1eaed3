"""Root-mean-square norm over the last axis (arXiv:1910.07467)."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from mindport.model.kernels.native import Native, native
from mindport.model.kernels.selector import Kernel, select


def rms_norm(*, eps: float, offset: int = 0, dtype: str = "float32") -> Kernel:
    """(offset + weight) · x / sqrt(mean(x²) + eps); called as `(x, weight)`: (…, d), (d,) → (…, d)."""
    paths = {"ascend": Ascend, "cpu": Cpu, "reference": Reference}
    return select("rms_norm", paths, eps=eps, offset=offset, dtype=dtype)


class Reference(Kernel):
    """Normalised in float32, cast back, then weighted; with an offset, weighted in float32 and then cast back.

    Those are the reference's two orders, and half precision can tell them apart.
    """

    def __init__(self, *, eps: float, offset: int, **_: Any) -> None:
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

    def __init__(self, *, eps: float, offset: int, **_: Any) -> None:
        super().__init__()
        self.eps, self.norm = eps, ops.rms_norm

    @staticmethod
    def refuses(*, offset: int, **_: Any) -> str | None:
        """The operator multiplies by the weight as it is, in the weight's own precision."""
        return f"a weight without offset, not {offset} + weight" if offset else None

    def construct(self, x: Tensor, weight: Tensor) -> Any:
        return self.norm(x, weight, self.eps)[0]


class Cpu(Native):
    """Row by row in C++ (cpp/norm.cc), which keeps one number a row for the gradient."""

    def __init__(self, *, eps: float, offset: int, **_: Any) -> None:
        super().__init__()
        self.settings = Tensor([eps, offset], ms.float32)
        grad = native("rms_norm_grad", lambda x, weight, settings, rstd, dy: (x, weight), outputs=2)

        def gradient(x: Any, weight: Any, settings: Any, out: Any, dout: Any) -> Any:
            dx, dweight = grad(x, weight, settings, out[1], dout[0])
            return dx, dweight, settings

        self.fused = native("rms_norm", lambda x, weight, settings: (x, x[:-1]), gradient, outputs=2)

    def construct(self, x: Tensor, weight: Tensor) -> Tensor:
        return self.fused(x, weight, self.settings)[0]
