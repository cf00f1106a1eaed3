"""`hidden_act` → the cell that computes it, alone or behind a gate."""

from __future__ import annotations

from mindspore import Tensor, nn

from mindport.model.kernels.gelu import gelu
from mindport.model.kernels.swiglu import swiglu


def activation(hidden_act: str) -> nn.Cell:
    """The activation of a plain MLP; called as `(x)`."""
    makers = {
        "gelu": lambda: gelu(approximate=False),
        "gelu_tanh": lambda: gelu(approximate=True),
        "silu": nn.SiLU,
        "relu": nn.ReLU,
    }
    return makers[hidden_act]()


def gated(hidden_act: str) -> nn.Cell:
    """act(gate) · up; called as `(gate, up)`. With silu it is the kernel `swiglu`."""
    return swiglu() if hidden_act == "silu" else Gated(hidden_act)


class Gated(nn.Cell):
    """Any activation times the other half."""

    def __init__(self, hidden_act: str) -> None:
        super().__init__()
        self.act = activation(hidden_act)

    def construct(self, gate: Tensor, up: Tensor) -> Tensor:
        return self.act(gate) * up
