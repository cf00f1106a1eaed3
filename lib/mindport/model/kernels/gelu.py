"""GELU (arXiv:1606.08415): x Φ(x) by the error function, or by the tanh that GPT-2 was trained with; and GEGLU."""

from __future__ import annotations

import math
from typing import Any

from mindspore import Tensor, ops

from mindport.model.kernels.native import Native, gated, plain
from mindport.model.kernels.selector import Kernel, select


def gelu(*, approximate: bool, dtype: str = "float32") -> Kernel:
    """The tanh approximation, or the erf form; called as `(x)`, any shape. They differ by up to 4.7e-4."""
    paths = {"ascend": Ascend, "cpu": Cpu, "reference": Reference}
    return select("gelu", paths, approximate=approximate, dtype=dtype)


def geglu(*, approximate: bool, dtype: str = "float32") -> Kernel:
    """gelu(gate) · up (arXiv:2002.05202); called as `(gate, up)`, equal shapes."""
    return select("geglu", {"cpu": GatedCpu, "reference": Gated}, approximate=approximate, dtype=dtype)


class Reference(Kernel):
    """x/2 · (1 + erf(x / √2)), or x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))).

    The second is written x · sigmoid(2 √(2/π) (x + 0.044715 x³)). The two are equal; MindSpore 2.10's Tanh on a CPU is
    wrong by 1e-4 around ±5, its Sigmoid by 8e-7 at most.
    """

    def __init__(self, *, approximate: bool, **_: Any) -> None:
        super().__init__()
        self.approximate, self.sigmoid, self.erf = approximate, ops.Sigmoid(), ops.Erf()
        self.root, self.linear = math.sqrt(0.5), 2 * math.sqrt(2 / math.pi)
        self.cubic = self.linear * 0.044715

    def construct(self, x: Tensor) -> Tensor:
        if self.approximate:
            return x * self.sigmoid(x * (self.linear + self.cubic * (x * x)))
        return 0.5 * x * (1.0 + self.erf(x * self.root))


class Ascend(Kernel):
    """`ops.gelu`. Checked here by a fake that records its arguments, never run.

    Not `ops.fast_gelu`: that is x σ(1.702 x), off by up to 0.02 from either form (tests/model/test_surprises.py).
    """

    def __init__(self, *, approximate: bool, **_: Any) -> None:
        super().__init__()
        self.gelu, self.approximate = ops.gelu, "tanh" if approximate else "none"

    def construct(self, x: Tensor) -> Tensor:
        return self.gelu(x, self.approximate)


class Cpu(Native):
    """One pass over x in C++ (cpp/activation.cc); its gradient is another, from x alone."""

    def __init__(self, *, approximate: bool, **_: Any) -> None:
        super().__init__()
        self.fused = plain("gelu_tanh" if approximate else "gelu_erf")

    def construct(self, x: Tensor) -> Tensor:
        return self.fused(x)


class Gated(Kernel):
    """GELU, on whatever path, then the product."""

    def __init__(self, *, approximate: bool, dtype: str) -> None:
        super().__init__()
        self.gelu = gelu(approximate=approximate, dtype=dtype)

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.gelu(gate) * up


class GatedCpu(Native):
    """One pass over both halves in C++ (cpp/activation.cc); gelu(gate) is computed again for the gradient."""

    def __init__(self, *, approximate: bool, **_: Any) -> None:
        super().__init__()
        self.fused = gated("geglu_tanh" if approximate else "geglu_erf")

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.fused(gate, up)
