"""Layer norm over the last axis (arXiv:1607.06450)."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

from mindport.model.kernels.native import Native, native
from mindport.model.kernels.selector import Kernel, select


def layer_norm(*, eps: float, dtype: str = "float32") -> Kernel:
    """weight · (x − mean) / sqrt(var + eps) + bias; called as `(x, weight, bias)`: (…, d), (d,), (d,) → (…, d)."""
    return select("layer_norm", {"cpu": Cpu, "reference": Reference}, eps=eps, dtype=dtype)


class Reference(Kernel):
    """The primitive, which is each device's own operator; `nn.LayerNorm` would default to another epsilon (1e-7)."""

    def __init__(self, *, eps: float, **_: Any) -> None:
        super().__init__()
        self.norm = ops.LayerNorm(begin_norm_axis=-1, begin_params_axis=-1, epsilon=eps)

    def construct(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return self.norm(x, weight, bias)[0]


class Cpu(Native):
    """Row by row in C++ (cpp/norm.cc), which keeps two numbers a row for the gradient."""

    def __init__(self, *, eps: float, **_: Any) -> None:
        super().__init__()
        self.settings = Tensor([eps], ms.float32)
        grad = native("layer_norm_grad", lambda x, weight, mean, rstd, dy: (x, weight, weight), outputs=3)

        def gradient(x: Any, weight: Any, bias: Any, settings: Any, out: Any, dout: Any) -> Any:
            dx, dweight, dbias = grad(x, weight, out[1], out[2], dout[0])
            return dx, dweight, dbias, settings

        self.fused = native("layer_norm", lambda x, *_: (x, x[:-1], x[:-1]), gradient, outputs=3)

    def construct(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return self.fused(x, weight, bias, self.settings)[0]
