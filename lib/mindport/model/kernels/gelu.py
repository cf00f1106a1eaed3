"""GELU (arXiv:1606.08415): x Φ(x) by the error function, or by the tanh that GPT-2 was trained with."""

from __future__ import annotations

import math

from mindspore import Tensor, ops

from mindport.model.kernels.native import native, refusal
from mindport.model.kernels.selector import Kernel, select


def gelu(*, approximate: bool) -> Kernel:
    """The tanh approximation, or the erf form; called as `(x)`, any shape. They differ by up to 4.7e-4."""
    paths = {"ascend": Ascend, "cpu": Cpu, "reference": Tanh if approximate else Erf}
    return select("gelu", paths, approximate=approximate)


class Erf(Kernel):
    """x/2 · (1 + erf(x / √2))."""

    def __init__(self, *, approximate: bool) -> None:
        super().__init__()
        self.root, self.erf = math.sqrt(0.5), ops.Erf()

    def construct(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1.0 + self.erf(x * self.root))


class Tanh(Kernel):
    """x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), written x · sigmoid(2 √(2/π) (x + 0.044715 x³)).

    The two are equal; MindSpore 2.10's Tanh on a CPU is wrong by 1e-4 around ±5, its Sigmoid by 8e-7 at most.
    """

    def __init__(self, *, approximate: bool) -> None:
        super().__init__()
        self.linear = 2 * math.sqrt(2 / math.pi)
        self.cubic = self.linear * 0.044715
        self.sigmoid = ops.Sigmoid()

    def construct(self, x: Tensor) -> Tensor:
        return x * self.sigmoid(x * (self.linear + self.cubic * (x * x)))


class Ascend(Kernel):
    """`ops.gelu`. Checked here by a fake that records its arguments, never run."""

    def __init__(self, *, approximate: bool) -> None:
        super().__init__()
        self.gelu, self.approximate = ops.gelu, "tanh" if approximate else "none"

    def construct(self, x: Tensor) -> Tensor:
        return self.gelu(x, self.approximate)


class Cpu(Kernel):
    """One pass over x in C++ (cpp/gelu.cc); its gradient is another, from x alone."""

    def __init__(self, *, approximate: bool) -> None:
        super().__init__()
        grad = native("gelu_tanh_grad", lambda x, dy: x)

        def gradient(x: Tensor, y: Tensor, dy: Tensor) -> tuple[Tensor]:
            return (grad(x, dy),)

        self.gelu = native("gelu_tanh", lambda x: x, gradient)

    @staticmethod
    def refuses(*, approximate: bool) -> str | None:
        return refusal() if approximate else "the tanh form"

    def construct(self, x: Tensor) -> Tensor:
        return self.gelu(x)
