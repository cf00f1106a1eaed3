"""x Wᵀ + b: most of the time of a training step."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, ops

from mindport.model.kernels.native import Native, native
from mindport.model.kernels.selector import Kernel, select


def linear(*, bias: bool, dtype: str) -> Kernel:
    """x Wᵀ, or x Wᵀ + b; called as `(x, weight)` or `(x, weight, bias)`: (…, in), (out, in), (out,) → (…, out).

    Args:
        bias: whether it is called with one.
        dtype: of the arrays.
    """
    return select("linear", {"cpu": Cpu, "reference": Reference}, bias=bias, dtype=dtype)


class Reference(Kernel):
    """Two-dimensional MatMul and BiasAdd, each device's own operators; mint.nn.Linear is slower on a CPU."""

    def __init__(self, **_: Any) -> None:
        super().__init__()
        self.matmul, self.add = ops.MatMul(transpose_b=True), ops.BiasAdd()

    def construct(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = self.matmul(x.reshape((-1, x.shape[-1])), weight)  # (rows, out)
        y = y if bias is None else self.add(y, bias)
        return y.reshape((*x.shape[:-1], weight.shape[0]))


class Cpu(Native):
    """One product in C++ (cpp/linear.cc, cpp/gemm.cc) and two for the gradients, with the bias on the way."""

    def __init__(self, *, bias: bool, **_: Any) -> None:
        super().__init__()
        self.product = _with_bias() if bias else _without_bias()

    def construct(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self.product(x, weight) if bias is None else self.product(x, weight, bias)


def _output(x: Any, weight: Any, *_: Any) -> Any:
    return (*x[:-1], weight[0])


def _to_input() -> ops.Custom:
    return native("linear_grad_input", lambda dy, weight: (*dy[:-1], weight[1]))


def _with_bias() -> ops.Custom:
    to_input = _to_input()
    to_both = native("linear_grad_both", lambda dy, x: ((dy[-1], x[-1]), (dy[-1],)), outputs=2)

    def gradient(x: Any, weight: Any, bias: Any, y: Any, dy: Any) -> Any:
        dweight, dbias = to_both(dy, x)
        return to_input(dy, weight), dweight, dbias

    return native("linear_bias", _output, gradient)


def _without_bias() -> ops.Custom:
    to_input = _to_input()
    to_weight = native("linear_grad_weight", lambda dy, x: (dy[-1], x[-1]))

    def gradient(x: Any, weight: Any, y: Any, dy: Any) -> Any:
        return to_input(dy, weight), to_weight(dy, x)

    return native("linear", _output, gradient)
