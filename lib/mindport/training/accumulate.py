"""A training step on several batches: their gradients are added up by tokens, and the optimizer moves once.

The batches go through one compiled graph, one after the other, so that only one's activations exist at a time. What
comes out is what one large batch would give: each token counts alike, whichever batch it stands in. The mean of the
batches' means, which is what trainers used to take, is something else as soon as they hold different numbers of
tokens that count.

Where several replicas of the model take a share of the rows each, what they have added up is added up over them, and
divided by the tokens of all: the same again, whichever replica a token is given to.
"""

from __future__ import annotations

from collections.abc import Iterable

import mindspore as ms
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops

from mindport.errors import UsageError
from mindport.model.kernels.cross_entropy import IGNORED
from mindport.training.loss_scale import Objective
from mindport.training.reduce import Buckets
from mindport.training.step import TrainStep


class Sums(nn.Cell):
    """What is added up: gradients, losses and tokens of the batches so far; called, it begins again at zero.

    The parameters `sum.<weight>`, `sum.loss` and `sum.counted` are zero between two steps: no checkpoint needs them.
    """

    def __init__(self, weights: ParameterTuple) -> None:
        super().__init__(auto_prefix=False)
        self.gradients = weights.clone(prefix="sum", init="zeros")
        self.loss = Parameter(Tensor(0.0, ms.float32), name="sum.loss")
        self.counted = Parameter(Tensor(0, ms.int32), name="sum.counted")
        self.all = (*self.gradients, self.loss, self.counted)
        for total in self.all:
            total.requires_grad = False
        self.assign, self.zeros = ops.Assign(), ops.zeros_like

    def construct(self) -> None:
        for total in self.all:
            self.assign(total, self.zeros(total))


class Add(nn.Cell):
    """(ids (b, T), labels (b, T)) → tokens that count; what is theirs is added to `sums`.

    Args:
        step: what computes loss and gradients.
        sums: to which they are added.
        unit: so many tokens weigh 1. About a batch's keeps scaled gradients as large as those of a mean.
    """

    def __init__(self, step: TrainStep, sums: Sums, unit: float) -> None:
        super().__init__(auto_prefix=False)  # parameters keep their names
        self.step, self.sums, self.unit = step, sums, unit
        self.loss_and_gradients = step.differentiated(Objective(step.loss, step.scaling))
        self.add, self.ignored, self.float32, self.int32 = ops.AssignAdd(), IGNORED, ms.float32, ms.int32
        self.set_train()

    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        self.step.advance()
        counted = (labels[:, 1:] != self.ignored).sum().astype(self.int32)  # an int64 until then
        loss, gradients = self.loss_and_gradients(ids, labels, counted.astype(self.float32) / self.unit)
        for i in range(len(gradients)):
            self.add(self.sums.gradients[i], gradients[i])
        self.add(self.sums.loss, loss)
        self.add(self.sums.counted, counted)
        return counted


class Move(nn.Cell):
    """() → mean loss, norm of the mean gradient, learning rate; the optimizer moves, and `sums` begin again.

    Args:
        step: what moves.
        sums: what was added up here.
        unit: as in `Add`.
        reduce: what adds that up over all replicas.
    """

    def __init__(self, step: TrainStep, sums: Sums, unit: float, reduce: Buckets | None = None) -> None:
        super().__init__(auto_prefix=False)
        self.step, self.sums, self.unit, self.reduce, self.float32 = step, sums, unit, reduce, ms.float32

    def construct(self) -> tuple[Tensor, Tensor, Tensor]:
        gradients, loss = self.sums.gradients, self.sums.loss
        counted = self.sums.counted.astype(self.float32)  # no int32 is added up over ranks on a CPU; exact to 2²⁴
        if self.reduce is not None:
            gradients, (loss, counted) = self.reduce(gradients, (loss, counted))
        weight = counted / self.unit
        loss = loss / self.step.divisor(weight)
        norm, lr = self.step.move(gradients, weight)
        self.sums()
        return loss, norm, lr


class AccumulatedStep:
    """Called with the batches of a step, an iterable of (ids, labels); returns what a `TrainStep` does.

    One in which no token counts is to be left out: its loss is the mean of nothing, NaN, and nothing moves. Where only
    other replicas have some in their rows of it, None stands for it: their pass is counted, and nothing added.

    Args:
        step: what computes loss and gradients, and moves.
        unit: about the tokens of a batch; see `Add`.
        reduce: adds up over replicas, all of which are called with as many batches.
    """

    def __init__(self, step: TrainStep, unit: float = 1.0, reduce: Buckets | None = None) -> None:
        self.optimizer, self.sums = step.optimizer, Sums(step.optimizer.weights)
        self.add, self.move = Add(step, self.sums, unit), Move(step, self.sums, unit, reduce)
        self.half_done = False

    def __call__(self, batches: Iterable[tuple[Tensor, Tensor] | None]) -> tuple[Tensor, Tensor, Tensor]:
        """Mean loss of all tokens that count, norm of its gradient, learning rate.

        Raises:
            UsageError: there is no batch.
        """
        if self.half_done:  # an interrupted step has left something behind
            self.sums()
        self.half_done, count = True, 0
        for count, batch in enumerate(batches, 1):  # noqa: B007
            if batch is None:
                self.add.step.advance()
            else:
                self.add(*batch)
        if not count:
            raise UsageError("a step takes a batch at least", got="none")
        moved = self.move()
        self.half_done = False
        return moved
