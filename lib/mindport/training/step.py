"""A whole training step as one cell: in Graph mode one graph, with no way back to Python in it."""

from __future__ import annotations

import math
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops

from mindport.errors import UsageError, some
from mindport.training.clip import ClipNorm
from mindport.training.loss_scale import LossScale, Objective
from mindport.training.optimizer import AdamW
from mindport.training.schedule import Schedule


class TrainStep(nn.Cell):
    """(ids (B, T), labels (B, T)) → loss, norm of the gradients before clipping, learning rate: three scalars.

    A norm that is not finite moves nothing: neither weights nor optimizer nor schedule, which follows the optimizer's
    count as it does in transformers' trainer; with a loss scale it is an overflow, and the scale is halved.

    Args:
        model: what is trained.
        loss: (ids, labels) → scalar, through the model.
        optimizer: of exactly the model's trainable parameters; it counts the steps.
        schedule: the learning rate of each.
        max_norm: gradients are clipped to this norm; None leaves them as they are.
        scaling: the loss scale of a float16 model.
        counter: advanced before each forward pass, for masks that are made from a count.

    Raises:
        UsageError: the optimizer has other weights than the model.
    """

    def __init__(
        self, model: nn.Cell, loss: nn.Cell, optimizer: AdamW, schedule: Schedule, max_norm: float | None = 1.0, *,
        scaling: LossScale | None = None, counter: nn.Cell | None = None,
    ) -> None:  # fmt: skip
        super().__init__(auto_prefix=False)  # parameters keep their names
        _check(model, optimizer)
        self.loss, self.optimizer, self.schedule = loss, optimizer, schedule
        self.clip = _clip(model, optimizer, max_norm)
        self.scaling, self.counter = scaling, counter
        self.is_finite, self.where, self.nan = ops.isfinite, ops.where, Tensor(math.nan, ms.float32)
        self.loss_and_gradients = self.differentiated(loss if scaling is None else Objective(loss, scaling))
        self.set_train()

    def differentiated(self, objective: nn.Cell) -> Any:
        """The inputs of `objective` → its value, and its gradients by the optimizer's weights."""
        return ms.value_and_grad(objective, None, weights=self.optimizer.weights)

    def construct(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.advance()
        if self.scaling is None:
            loss, gradients = self.loss_and_gradients(ids, labels)
            return loss, *self.move(gradients)
        scaled, gradients = self.loss_and_gradients(ids, labels, 1.0)
        loss = scaled / self.scaling.value
        return loss, *self.move(gradients)

    def advance(self) -> None:
        """Before a forward pass: so recomputed layers, which run later, find the count that it found."""
        if self.counter is not None:
            self.counter()

    def move(self, gradients: tuple[Tensor, ...], weight: Any = None) -> tuple[Tensor, Tensor]:
        """The second half of a step: gradients → their norm, the learning rate.

        Args:
            gradients: one for each of the optimizer's weights, times the loss scale.
            weight: what they are to be divided by, float32 ().
        """
        norm, scale = self.clip(gradients, self.divisor(weight))
        finite = self.is_finite(norm)
        lr = self.schedule(self.optimizer.step)
        self.optimizer(gradients, lr, self.where(finite, scale, self.nan))
        if self.scaling is not None:
            self.scaling(finite)
        return norm, lr

    def divisor(self, weight: Any) -> Any:
        """`weight` times the loss scale, where there are any."""
        if self.scaling is None:
            return weight
        return self.scaling.value * 1.0 if weight is None else self.scaling.value * weight


def _clip(model: nn.Cell, optimizer: AdamW, max_norm: float | None) -> ClipNorm:
    """The norm over all ranks that share the weights, where the model says that there are some."""
    split = getattr(model, "split", {})
    parts = [weight.name in split for weight in optimizer.weights] if split else []
    return ClipNorm(max_norm, parts, model.ranks.tp_group if split else "")


def _check(model: nn.Cell, optimizer: AdamW) -> None:
    trained, given = ({w.name for w in weights} for weights in (model.trainable_params(), optimizer.weights))
    if trained != given:
        raise UsageError("the optimizer's weights are not the trainable ones of the model",
                         where=some(sorted(trained ^ given)), do="AdamW(model.trainable_params())")  # fmt: skip
