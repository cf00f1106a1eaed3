"""The Euclidean norm of many tensors taken as one vector."""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, ops

from mindport.model.kernels.native import Native, native
from mindport.model.kernels.selector import Kernel, select


def global_norm() -> Kernel:
    """Called as `(tensors)`, a tuple of float32 tensors of any shapes → ()."""
    return select("global_norm", {"cpu": Cpu, "reference": Reference})


class Reference(Kernel):
    """The root of the sum of the squares."""

    def __init__(self) -> None:
        super().__init__()
        self.sqrt = ops.Sqrt()

    def construct(self, tensors: Any) -> Tensor:
        total = 0.0
        for tensor in tensors:
            total = total + (tensor * tensor).sum()
        return self.sqrt(total)


class Cpu(Native):
    """One call, summed in float64, in C++ (cpp/global_norm.cc)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = native("global_norm", lambda *inputs: (1,))

    def construct(self, tensors: Any) -> Tensor:
        return self.norm(*tensors).reshape(())
