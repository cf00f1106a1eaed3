"""Layer norm over the last axis (arXiv:1607.06450)."""

from __future__ import annotations

from mindspore import Tensor, ops

from mindport.model.kernels.selector import Kernel, select


def layer_norm(*, eps: float) -> Kernel:
    """weight · (x − mean) / sqrt(var + eps) + bias; called as `(x, weight, bias)`: (…, d), (d,), (d,) → (…, d)."""
    return select("layer_norm", {"reference": Reference}, eps=eps)


class Reference(Kernel):
    """The primitive, which is each device's own operator; `nn.LayerNorm` would default to another epsilon (1e-7)."""

    def __init__(self, *, eps: float) -> None:
        super().__init__()
        self.norm = ops.LayerNorm(begin_norm_axis=-1, begin_params_axis=-1, epsilon=eps)

    def construct(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return self.norm(x, weight, bias)[0]
