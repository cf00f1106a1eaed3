"""SwiGLU: silu(gate) · up (arXiv:2002.05202)."""

from __future__ import annotations

from mindspore import Tensor, ops

from mindport.model.kernels.selector import Kernel, select


def swiglu() -> Kernel:
    """Called as `(gate, up)`, equal shapes (…, f) → (…, f)."""
    return select("swiglu", {"ascend": Ascend, "reference": Reference})


class Reference(Kernel):
    """silu, then the product."""

    def __init__(self) -> None:
        super().__init__()
        self.silu = ops.silu

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.silu(gate) * up


class Ascend(Kernel):
    """`ops.swiglu`, which takes the halves side by side. Checked here by a fake, never run."""

    def __init__(self) -> None:
        super().__init__()
        self.swiglu, self.concat = ops.swiglu, ops.Concat(-1)

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.swiglu(self.concat((gate, up)), -1)
