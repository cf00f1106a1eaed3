"""SwiGLU: silu(gate) · up (arXiv:2002.05202); and SiLU alone: x σ(x)."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, ops

from mindport.model.kernels.native import Native, gated, plain
from mindport.model.kernels.selector import Kernel, select


def silu(*, dtype: str = "float32") -> Kernel:
    """Called as `(x)`, any shape."""
    return select("silu", {"cpu": SiluCpu, "reference": Silu}, dtype=dtype)


def swiglu(*, dtype: str = "float32") -> Kernel:
    """Called as `(gate, up)`, equal shapes (…, f) → (…, f)."""
    return select("swiglu", {"ascend": Ascend, "cpu": Cpu, "reference": Reference}, dtype=dtype)


class Silu(Kernel):
    """The primitive, which is each device's own operator."""

    def __init__(self, **_: Any) -> None:
        super().__init__()
        self.silu = ops.silu

    def construct(self, x: Tensor) -> Tensor:
        return self.silu(x)


class SiluCpu(Native):
    """One pass over x in C++ (cpp/activation.cc); its gradient is another, from x alone."""

    def __init__(self, **_: Any) -> None:
        super().__init__()
        self.fused = plain("silu")

    def construct(self, x: Tensor) -> Tensor:
        return self.fused(x)


class Reference(Kernel):
    """silu, then the product."""

    def __init__(self, **_: Any) -> None:
        super().__init__()
        self.silu = ops.silu

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.silu(gate) * up


class Ascend(Kernel):
    """`ops.swiglu`, which takes the halves side by side. Checked here by a fake, never run."""

    def __init__(self, **_: Any) -> None:
        super().__init__()
        self.swiglu, self.concat = ops.swiglu, ops.Concat(-1)

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.swiglu(self.concat((gate, up)), -1)


class Cpu(Native):
    """One pass over both halves in C++ (cpp/activation.cc); silu(gate) is computed again for the gradient."""

    def __init__(self, **_: Any) -> None:
        super().__init__()
        self.fused = gated("swiglu")

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.fused(gate, up)
