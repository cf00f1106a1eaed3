"""A whole training step as one cell: in Graph mode one graph, with no way back to Python in it."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn

from mindport.errors import UsageError, some
from mindport.training.clip import ClipNorm
from mindport.training.optimizer import AdamW
from mindport.training.schedule import Schedule


class TrainStep(nn.Cell):
    """(ids (B, T), labels (B, T)) → loss, norm of the gradients before clipping, learning rate: three scalars.

    Args:
        model: what is trained.
        loss: (ids, labels) → scalar, through the model.
        optimizer: of exactly the model's trainable parameters; it counts the steps.
        schedule: the learning rate of each.
        max_norm: gradients are clipped to this norm; None leaves them as they are.

    Raises:
        UsageError: the optimizer has other weights than the model.
    """

    def __init__(
        self, model: nn.Cell, loss: nn.Cell, optimizer: AdamW, schedule: Schedule, max_norm: float | None = 1.0
    ) -> None:
        super().__init__(auto_prefix=False)  # parameters keep their names
        _check(model, optimizer)
        self.loss, self.optimizer, self.schedule, self.clip = loss, optimizer, schedule, ClipNorm(max_norm)
        self.loss_and_gradients = ms.value_and_grad(loss, None, weights=optimizer.weights)
        self.set_train()

    def construct(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        loss, gradients = self.loss_and_gradients(ids, labels)
        norm, scale = self.clip(gradients)
        lr = self.schedule(self.optimizer.step)
        self.optimizer(gradients, lr, scale)
        return loss, norm, lr


def _check(model: nn.Cell, optimizer: AdamW) -> None:
    trained, given = ({w.name for w in weights} for weights in (model.trainable_params(), optimizer.weights))
    if trained != given:
        raise UsageError("the optimizer's weights are not the trainable ones of the model",
                         where=some(sorted(trained ^ given)), do="AdamW(model.trainable_params())")  # fmt: skip
