"""How far two right implementations may be apart, and why the numbers are what they are.

Every limit is the larger of two: a fixed one, and a multiple of what float32 costs the *reference itself* (its
distance from its own float64 run). Errors inside the model are relative: the largest error at a position over the
largest value at that position. Real models need that: SmolLM2-135M has 24,000 on its residual stream, where
neighbouring float32 numbers are 0.002 apart, beside positions with values near 1.

Measured with `mindport verify` (SmolLM2-135M and the bundled models, 2 cores):

    a cell on the reference's input    most ≤ 3e-6; attention's context in layer 21 is at 1.3e-5, torch 3.4e-6
    a layer on the reference's input   ≤ 2.4e-6
    the residual stream                ≤ 1.6e-5 after 30 layers, within 4.5 times torch's own
    logits of 30 layers                9.5e-5 from the exact value, torch 5.8e-5 (values up to 38)
    a wrong GELU, the smallest fault   2e-4: a limit of 1e-3 lets it pass, and cosine calls it 0.99999999
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Limits:
    """The limits of one precision.

    Attributes:
        cell: relative error of a cell, a layer or the residual stream.
        logits: absolute error of the logits from their exact value.
        gradient: error of a gradient over its largest value.
        loss: absolute error of the loss of a step, in nats.
        rate: error of the learning rate over the largest one.
        own, own_logits: so many times the reference's own error is always allowed, inside and at the logits.
    """

    cell: float = 1e-5
    logits: float = 1e-4
    gradient: float = 1e-5
    loss: float = 1e-5
    rate: float = 1e-6
    own: float = 8.0
    own_logits: float = 4.0

    def for_cell(self, own: float) -> float:
        """The relative error allowed where the reference's own is `own`."""
        return max(self.cell, self.own * own)

    def for_gradient(self, own: float) -> float:
        """The same for a gradient."""
        return max(self.gradient, self.own * own)

    def for_loss(self, own: float) -> float:
        """The absolute error allowed for the loss."""
        return max(self.loss, self.own * own)

    def for_step(self, quantity: Literal["loss", "norm", "lr"], own: float) -> float:
        """The error allowed for a figure of a training step."""
        fixed = {"loss": self.loss, "norm": self.gradient, "lr": self.rate}[quantity]
        return max(fixed, self.own * own)

    def for_logits(self, own: float) -> float:
        """The absolute error allowed at the logits."""
        return max(self.logits, self.own_logits * own)


FLOAT32 = Limits()
