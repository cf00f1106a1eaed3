"""The training step as one Cell, with the signatures of `mindport.training`, which will stand in its place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops


class Constant:
    """A learning rate."""

    def __init__(self, lr: float) -> None:
        self.lr = lr


class AdamW(nn.Cell):
    """AdamW as torch computes it, by the fused operator, which knows no bias correction.

    With c1 = 1 − β1ᵗ and c2 = √(1 − β2ᵗ) it takes lr · c2 / c1, eps · c2 and weight_decay · c1 / c2.
    """

    def __init__(
        self, weights: Sequence[Parameter], *, betas: tuple[float, float], eps: float, weight_decay: float
    ) -> None:
        super().__init__(auto_prefix=False)
        self.weights = ms.ParameterTuple(weights)
        self.m, self.v = (self.weights.clone(prefix=f"adam.{mean}", init="zeros") for mean in "mv")
        self.step = Parameter(Tensor(0.0, ms.float32), name="adam.step", requires_grad=False)
        self.update, self.exp, self.sqrt = ops.AdamWeightDecay(), ops.Exp(), ops.Sqrt()
        (self.beta1, self.beta2), self.eps = betas, eps
        self.log1, self.log2 = math.log(self.beta1), math.log(self.beta2)
        self.decays, self.count = [weight_decay * (weight.ndim > 1) for weight in weights], len(weights)

    def construct(self, gradients: tuple[Tensor, ...], lr: float) -> bool:
        t = self.step + 1.0
        self.step = t
        c1, c2 = 1.0 - self.exp(t * self.log1), self.sqrt(1.0 - self.exp(t * self.log2))
        for i in range(self.count):
            self.update(self.weights[i], self.m[i], self.v[i], lr * c2 / c1, self.beta1, self.beta2, self.eps * c2,
                        self.decays[i] * c1 / c2, gradients[i])  # fmt: skip
        return True


class TrainStep(nn.Cell):
    """(ids, labels) → (loss,); the weights are updated."""

    def __init__(
        self, model: nn.Cell, loss: nn.Cell, optimizer: AdamW, schedule: Constant, max_norm: float = 1.0
    ) -> None:
        super().__init__(auto_prefix=False)
        self.model, self.optimizer, self.lr, self.max_norm = model, optimizer, schedule.lr, max_norm
        self.gradients = ms.value_and_grad(loss, None, weights=optimizer.weights)
        self.sqrt, self.square, self.minimum = ops.Sqrt(), ops.Square(), ops.Minimum()

    def construct(self, ids: Tensor, labels: Tensor) -> tuple[Tensor]:
        loss, gradients = self.gradients(ids, labels)
        total = 0.0
        for gradient in gradients:
            total += self.square(gradient).sum()
        scale = self.minimum(self.max_norm / (self.sqrt(total) + 1e-6), 1.0)
        clipped = ()
        for gradient in gradients:
            clipped += (gradient * scale,)
        self.optimizer(clipped, self.lr)
        return (loss,)
