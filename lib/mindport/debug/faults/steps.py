"""Wrong training steps: the loss, the gradients, clipping, the schedule, the mode; each right but for one thing."""

from __future__ import annotations

import secrets
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from mindport.model import GPT, NextTokenLoss
from mindport.model.kernels.selector import Kernel
from mindport.training import Cosine, TrainStep

SCALE, PARTS = 1024.0, 4  # a loss scale; micro-batches of a step


class Unshifted(NextTokenLoss):
    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        return self.loss(self.model(ids).reshape((-1, self.rows)), labels.reshape((-1,)))


class TwiceShifted(NextTokenLoss):
    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        return super().construct(ids, ops.concat((labels[:, 1:], self.full_like(labels[:, :1], self.ignored)), 1))


class Padding(NextTokenLoss):
    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        return super().construct(ids, ids)


class Summed(NextTokenLoss):
    """Over the labels that count."""

    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        return super().construct(ids, labels) * (labels[:, 1:] != self.ignored).sum().astype(ms.float32)


class OverAll(Summed):
    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        return super().construct(ids, labels) / labels.size


class OfMeans(NextTokenLoss):
    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        means = [super(OfMeans, self).construct(ids[i : i + 1], labels[i : i + 1]) for i in range(len(ids))]
        return ops.stack(means).mean()


class Dropped(NextTokenLoss):
    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        return super().construct(ids[:-1], labels[:-1])


class Changed(TrainStep):
    """Gradients that are changed before anything is done with them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        right = self.loss_and_gradients

        def changed(ids: Tensor, labels: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
            loss, gradients = right(ids, labels)
            return loss, tuple(map(self.change, gradients))

        self.loss_and_gradients = changed

    def change(self, gradient: Tensor) -> Tensor:
        raise NotImplementedError


class Scaled(Changed):
    def change(self, gradient: Tensor) -> Tensor:
        return gradient * SCALE


class Accumulated(Changed):
    def change(self, gradient: Tensor) -> Tensor:
        return gradient * PARTS


class Opposite(Changed):
    def change(self, gradient: Tensor) -> Tensor:
        return -gradient


class Noisy(Changed):
    """Others in each run, as sums in no fixed order are, only more so."""

    def change(self, gradient: Tensor) -> Tensor:
        noise = np.random.default_rng().standard_normal(gradient.shape).astype(np.float32)
        return gradient * Tensor(1 + 1e-3 * noise)


class PerTensor(TrainStep):
    def construct(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        loss, gradients = self.loss_and_gradients(ids, labels)
        lr = self.schedule(self.optimizer.step)
        self.optimizer(tuple(g * self.clip((g,))[1] for g in gradients), lr, Tensor(1.0, ms.float32))
        return loss, self.clip(gradients)[0], lr


class ClippedScaled(TrainStep):
    def construct(self, ids: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        loss, gradients = self.loss_and_gradients(ids, labels)
        norm, scale = self.clip(tuple(g * SCALE for g in gradients))
        lr = self.schedule(self.optimizer.step)
        self.optimizer(gradients, lr, scale)
        return loss, norm, lr


class Dropping(TrainStep):
    def set_train(self, mode: bool = True) -> TrainStep:
        return super().set_train(True)


class LateCosine(Cosine):
    def construct(self, step: Tensor) -> Tensor:
        return super().construct(ops.maximum(step - 1, Tensor(0, ms.int32)))


class EarlyCosine(Cosine):
    def construct(self, step: Tensor) -> Tensor:
        return super().construct(step + 1)


class OftenCosine(Cosine):
    def construct(self, step: Tensor) -> Tensor:
        return super().construct(step * PARTS)


class Detached(Kernel):
    """A linear map whose weight gets no gradient."""

    def __init__(self, linear: nn.Cell) -> None:
        super().__init__()
        self.linear = linear

    def construct(self, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        return self.linear(x, ops.stop_gradient(weight), *bias)


def detach_query(model: GPT) -> None:
    """The second layer's q, so that the first is seen to pass."""
    query = model.blocks[min(1, len(model.blocks) - 1)].attn.q
    query.linear = Detached(query.linear)


def detach_head(model: GPT) -> None:
    """A tied table then learns as an embedding only."""
    model.head.linear = Detached(model.head.linear)


def unseeded(model: GPT) -> None:
    """Masks that no later run draws again, as those of nn.Dropout."""
    ops.assign(model.counter.state, Tensor([secrets.randbits(31), 0], ms.int32))


def grow(model: GPT) -> None:
    """Weights of another day: all a hundredth larger."""
    for weight in model.trainable_params():
        weight.set_data(weight * 1.01)
