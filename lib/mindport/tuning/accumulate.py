"""A training step on a batch in pieces: their gradients are added up, and the optimizer moves once.

The pieces go through one compiled graph, one after the other, so that only one piece's activations exist at a time.
"""

from __future__ import annotations

from mindspore import ParameterTuple, Tensor, nn, ops

from mindport.training import ClipNorm, TrainStep


class Add(nn.Cell):
    """(ids (b, T), labels (b, T)) → loss; the gradients are added to `sums`."""

    def __init__(self, step: TrainStep, sums: ParameterTuple) -> None:
        super().__init__(auto_prefix=False)  # parameters keep their names
        self.loss_and_gradients, self.sums, self.add = step.loss_and_gradients, sums, ops.AssignAdd()
        self.set_train()

    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        loss, gradients = self.loss_and_gradients(ids, labels)
        for i in range(len(self.sums)):
            self.add(self.sums[i], gradients[i])
        return loss


class Move(nn.Cell):
    """() → norm of the mean gradient, learning rate; the optimizer moves, and `sums` begin again at zero."""

    def __init__(self, step: TrainStep, sums: ParameterTuple, pieces: int) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer, self.schedule, self.sums, self.pieces = step.optimizer, step.schedule, sums, pieces
        limit = step.clip.max_norm
        self.clip = ClipNorm(None if limit is None else limit * pieces)
        self.assign, self.zeros = ops.Assign(), ops.zeros_like

    def construct(self) -> tuple[Tensor, Tensor]:
        norm, scale = self.clip(self.sums)  # of the sums: as many times larger as there are pieces
        lr = self.schedule(self.optimizer.step)
        self.optimizer(self.sums, lr, scale / self.pieces)
        for total in self.sums:
            self.assign(total, self.zeros(total))
        return norm / self.pieces, lr


class AccumulatedStep:
    """Called like the `TrainStep` that it is made of, with the whole batch.

    Args:
        step: what computes loss and gradients, and moves.
        pieces: equal parts that the batch is cut into, all with the same number of tokens that count.
    """

    def __init__(self, step: TrainStep, pieces: int) -> None:
        sums = step.optimizer.weights.clone(prefix="sum", init="zeros")
        for total in sums:
            total.requires_grad = False
        self.optimizer, self.pieces = step.optimizer, pieces
        self.add, self.move = Add(step, sums), Move(step, sums, pieces)

    def __call__(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean loss of the pieces, norm of the mean gradient, learning rate."""
        size = ids.shape[0] // self.pieces
        parts = [slice(i * size, (i + 1) * size) for i in range(self.pieces)]
        losses = [self.add(ids[part], labels[part]) for part in parts]
        return sum(losses) / self.pieces, *self.move()
