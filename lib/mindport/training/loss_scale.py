"""A loss scale that finds itself: float16 gradients are kept out of both ends of their range.

The loss is multiplied by it, and the gradients, once they are float32, are divided by it: what would have been too
small for float16 survives. Where it is too large, gradients overflow; that shows in their norm, the one reduction
that is made anyhow (MindSpore's own cells ask a status register, which only some devices have). Then the step is
skipped and the scale halved; after a window of good steps it is doubled: the course of `torch.amp.GradScaler`, but
for the floor of 1, below which nothing is left to gain.
"""

from __future__ import annotations

import math

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from mindport.errors import UsageError

LEAST, FACTOR = 1.0, 2.0


class LossScale(nn.Cell):
    """Called with whether the step's gradients were finite, bool (); changes its own state in place.

    The state are the parameters `loss_scale.value`, float32 (), and `loss_scale.good_steps`, int32 (): steps without
    overflow since the scale last changed.

    Args:
        value: to begin with.
        window: good steps after which the scale doubles.

    Raises:
        UsageError: numbers that make no loss scale.
    """

    def __init__(self, value: float = 65536.0, window: int = 2000) -> None:
        super().__init__(auto_prefix=False)
        if not LEAST <= value < math.inf:
            raise UsageError("this is no loss scale", got=value, expected=f"a number from {LEAST:.0f} on")
        if window < 1:
            raise UsageError("the loss scale doubles after a number of steps", got=window, expected="1 or more")
        self.value = Parameter(Tensor(value, ms.float32), name="loss_scale.value", requires_grad=False)
        self.good_steps = Parameter(Tensor(0, ms.int32), name="loss_scale.good_steps", requires_grad=False)
        self.window, self.zero = window, Tensor(0, ms.int32)
        self.assign, self.where, self.is_finite = ops.Assign(), ops.where, ops.isfinite

    @property
    def state(self) -> tuple[Parameter, ...]:
        """What a checkpoint needs."""
        return self.value, self.good_steps

    def construct(self, finite: Tensor) -> Tensor:
        good = self.where(finite, self.good_steps + 1, self.zero)
        full, double = good >= self.window, self.value * FACTOR
        grown = self.where(full & self.is_finite(double), double, self.value)
        halved = self.where(self.value > LEAST * FACTOR, self.value / FACTOR, LEAST)
        value = self.where(finite, grown, halved)
        self.assign(self.good_steps, self.where(full, self.zero, good))
        self.assign(self.value, value)
        return value


class Objective(nn.Cell):
    """(ids (B, T), labels (B, T), weight ()) → what is differentiated: the mean loss, weighted, and scaled.

    Args:
        loss: (ids, labels) → mean loss, a scalar.
        scaling: the loss scale, where there is one.
    """

    def __init__(self, loss: nn.Cell, scaling: LossScale | None) -> None:
        super().__init__(auto_prefix=False)  # parameters keep their names
        self.loss, self.scaling = loss, scaling

    def construct(self, ids: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
        loss = self.loss(ids, labels) * weight
        return loss if self.scaling is None else loss * self.scaling.value
