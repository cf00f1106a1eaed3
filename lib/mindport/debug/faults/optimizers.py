"""Wrong optimizers: AdamW in plain operators, each with one part of it changed. PyNative mode."""

from __future__ import annotations

import mindspore as ms
from mindspore import Parameter, Tensor, ops

from mindport.parity.recipe import Recipe
from mindport.training import AdamW

FROZEN = "norm.weight"


class Wrong(AdamW):
    """AdamW by a recipe, right as it stands; a subclass changes a part.

    Args:
        weights: what it changes.
        told: the recipe.
    """

    def __init__(self, weights: list[Parameter], told: Recipe) -> None:
        super().__init__(weights, betas=told.betas, eps=told.eps, weight_decay=told.weight_decay)
        self.told, self.taken = told, 0

    def construct(self, gradients: tuple[Tensor, ...], lr: Tensor, scale: Tensor) -> Tensor:
        self.taken += 1
        ops.assign(self.step, Tensor(self.taken, ms.int32))
        for parts in zip(self.weights, self.m, self.v, gradients, strict=True):
            self.change(*parts, lr, scale)
        return self.step

    def change(
        self, weight: Parameter, m: Parameter, v: Parameter, gradient: Tensor, lr: Tensor, scale: Tensor
    ) -> None:
        one, two = self.told.betas
        decay = 0.0 if weight.name in self.told.no_decay else self.told.weight_decay
        gradient = self.gradient(gradient, scale, weight, decay)
        mean = self.kept(m * one + gradient * (1 - one))
        square = self.kept(v * two + gradient * gradient * (1 - two))
        move = self.move(mean, square, *self.corrections(self.taken)) * self.clip(scale)
        rate = self.rate(lr)
        after = weight * (1 - rate * self.decay(decay)) - rate * move
        for parameter, value in ((m, mean), (v, square), (weight, after)):
            ops.assign(parameter, value)

    def gradient(self, gradient: Tensor, scale: Tensor, weight: Parameter, decay: float) -> Tensor:
        return gradient * scale

    def kept(self, mean: Tensor) -> Tensor:
        return mean

    def corrections(self, t: int) -> tuple[float, float]:
        one, two = self.told.betas
        return 1 - one**t, 1 - two**t

    def move(self, m: Tensor, v: Tensor, c1: float, c2: float) -> Tensor:
        return m / c1 / (ops.sqrt(v / c2) + self.told.eps)

    def clip(self, scale: Tensor) -> Tensor | float:
        return 1.0

    def decay(self, decay: float) -> float:
        return decay

    def rate(self, lr: Tensor) -> Tensor | float:
        return lr


class Uncorrected(Wrong):
    def corrections(self, t: int) -> tuple[float, float]:
        return 1.0, 1.0


class AdamWeightDecay(Uncorrected):
    """What nn.AdamWeightDecay does."""

    def move(self, m: Tensor, v: Tensor, c1: float, c2: float) -> Tensor:
        return m / (ops.sqrt(v) + 1e-6)


class NotCounted(Wrong):
    def corrections(self, t: int) -> tuple[float, float]:
        return super().corrections(1)


class EpsInside(Wrong):
    def move(self, m: Tensor, v: Tensor, c1: float, c2: float) -> Tensor:
        return m / c1 / ops.sqrt(v / c2 + self.told.eps)


class EpsEarly(Wrong):
    def move(self, m: Tensor, v: Tensor, c1: float, c2: float) -> Tensor:
        return m / c1 / (ops.sqrt(v) + self.told.eps) * c2**0.5


class L2(Wrong):
    def gradient(self, gradient: Tensor, scale: Tensor, weight: Parameter, decay: float) -> Tensor:
        return gradient * scale + decay * weight

    def decay(self, decay: float) -> float:
        return 0.0


class ClipAfter(Wrong):
    def gradient(self, gradient: Tensor, scale: Tensor, weight: Parameter, decay: float) -> Tensor:
        return gradient

    def clip(self, scale: Tensor) -> Tensor | float:
        return scale


class Forgetful(Wrong):
    def change(self, weight: Parameter, m: Parameter, v: Parameter, *rest: Tensor) -> None:
        ops.assign(m, m * 0)
        ops.assign(v, v * 0)
        super().change(weight, m, v, *rest)


class Frozen(Wrong):
    def change(self, weight: Parameter, *rest: Tensor) -> None:
        before = weight * 1.0
        super().change(weight, *rest)
        if weight.name == FROZEN:
            ops.assign(weight, before)


class Halved(Wrong):
    def kept(self, mean: Tensor) -> Tensor:
        return mean.astype(ms.bfloat16).astype(ms.float32)


class PeakRate(Wrong):
    def rate(self, lr: Tensor) -> Tensor | float:
        return self.told.lr
