"""`hidden_act` → the cell that computes it, alone or behind a gate."""

from __future__ import annotations

import numpy as np
from mindspore import Tensor, nn, ops

from mindport.model.kernels.gelu import geglu, gelu
from mindport.model.kernels.swiglu import silu, swiglu


def activation(hidden_act: str, dtype: str = "float32") -> nn.Cell:
    """The activation of a plain MLP; called as `(x)`."""
    makers = {
        "gelu": lambda: gelu(approximate=False, dtype=dtype),
        "gelu_tanh": lambda: gelu(approximate=True, dtype=dtype),
        "silu": lambda: silu(dtype=dtype),
        "relu": Relu,
    }
    return makers[hidden_act]()


def gated(hidden_act: str, dtype: str = "float32") -> nn.Cell:
    """act(gate) · up; called as `(gate, up)`."""
    makers = {
        "gelu": lambda: geglu(approximate=False, dtype=dtype),
        "gelu_tanh": lambda: geglu(approximate=True, dtype=dtype),
        "silu": lambda: swiglu(dtype=dtype),
    }
    return makers.get(hidden_act, lambda: Gated(hidden_act, dtype))()


class Gated(nn.Cell):
    """Any activation times the other half."""

    def __init__(self, hidden_act: str, dtype: str) -> None:
        super().__init__()
        self.act = activation(hidden_act, dtype)

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.act(gate) * up


class Relu(nn.Cell):
    """max(x, 0), and NaN for NaN: of that MindSpore 2.10's own makes 0 on a CPU, and an overflow goes unseen."""

    def __init__(self) -> None:
        super().__init__()
        self.where, self.zero = ops.where, Tensor(np.float32(0))

    def construct(self, x: Tensor) -> Tensor:
        return self.where(x <= 0, self.zero.astype(x.dtype), x)
