"""x Wᵀ + b: where a training step spends its time, and the product that all others are held to."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, ops

from mindport.model.kernels.native import native, refusal
from mindport.model.kernels.selector import Kernel, select


def linear(*, bias: bool, dtype: str) -> Kernel:
    """x Wᵀ, or x Wᵀ + b; called as `(x, weight)` or `(x, weight, bias)`: (…, in), (out, in), (out,) → (…, out).

    Args:
        bias: whether it is called with one.
        dtype: of the arrays.
    """
    return select("linear", {"cpu": Cpu, "reference": Reference}, bias=bias, dtype=dtype)


class Reference(Kernel):
    """Two-dimensional MatMul and BiasAdd, which are each device's own operators (mint.nn.Linear is slower on a CPU)."""

    def __init__(self, *, bias: bool, dtype: str) -> None:
        super().__init__()
        self.matmul, self.add = ops.MatMul(transpose_b=True), ops.BiasAdd()

    def construct(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        y = self.matmul(x.reshape((-1, x.shape[-1])), weight)  # (rows, out)
        y = y if bias is None else self.add(y, bias)
        return y.reshape((*x.shape[:-1], weight.shape[0]))


class Cpu(Kernel):
    """One product in C++ (cpp/linear.cc), the bias added on the way; two for the gradients, the bias's on the way."""

    def __init__(self, *, bias: bool, dtype: str) -> None:
        super().__init__()
        self.product = native("linear", _output, _gradient(bias))

    @staticmethod
    def refuses(*, bias: bool, dtype: str) -> str | None:
        return refusal(dtype)

    def construct(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self.product(x, weight) if bias is None else self.product(x, weight, bias)


def _output(x: Any, weight: Any, *bias: Any) -> Any:
    return (*x[:-1], weight[0])


def _gradient(bias: bool) -> Any:
    """(x, W[, b], y, dy) → dx, dW[, db]."""
    to_input = native("linear_grad_input", lambda dy, weight: (*dy[:-1], weight[1]))
    if not bias:
        to_weight = native("linear_grad_weight", lambda dy, x: (dy[-1], x[-1]))
        return lambda x, weight, y, dy: (to_input(dy, weight), to_weight(dy, x))
    to_both = native("linear_grad_weight", lambda dy, x: ((dy[-1], x[-1]), (dy[-1],)), outputs=2)
    return lambda x, weight, bias, y, dy: (to_input(dy, weight), *to_both(dy, x))
