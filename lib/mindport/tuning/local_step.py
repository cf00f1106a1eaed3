"""A training step as one Cell: loss, gradients, AdamW."""

from __future__ import annotations

import math

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

from mindport.tuning import shapes


class AdamW(nn.Cell):
    """AdamW as torch computes it, by the fused operator, which knows no bias correction.

    With c1 = 1 − β1ᵗ and c2 = √(1 − β2ᵗ) it takes lr · c2 / c1, eps · c2 and weight_decay · c1 / c2.
    """

    def __init__(self, parameters: list[Parameter]) -> None:
        super().__init__(auto_prefix=False)
        self.parameters = ms.ParameterTuple(parameters)
        self.average = self.parameters.clone(prefix="exp_avg", init="zeros")
        self.square = self.parameters.clone(prefix="exp_avg_sq", init="zeros")
        self.step = Parameter(Tensor(0.0, ms.float32), name="step", requires_grad=False)
        self.update, self.exp, self.sqrt = ops.AdamWeightDecay(), ops.Exp(), ops.Sqrt()
        self.beta1, self.beta2 = shapes.BETAS
        self.log1, self.log2 = math.log(self.beta1), math.log(self.beta2)
        self.lr, self.eps, self.decay = shapes.LEARNING_RATE, shapes.EPSILON, shapes.WEIGHT_DECAY
        self.count = len(parameters)

    def construct(self, gradients: tuple[Tensor, ...]) -> bool:
        t = self.step + 1.0
        self.step = t
        c1, c2 = 1.0 - self.exp(t * self.log1), self.sqrt(1.0 - self.exp(t * self.log2))
        lr, eps, decay = self.lr * c2 / c1, self.eps * c2, self.decay * c1 / c2
        for i in range(self.count):
            self.update(self.parameters[i], self.average[i], self.square[i], lr, self.beta1, self.beta2, eps, decay,
                        gradients[i])  # fmt: skip
        return True


class TrainStep(nn.Cell):
    """(ids, labels) → loss; the parameters are updated."""

    def __init__(self, loss: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.optimizer = AdamW(loss.trainable_params())
        self.gradients = ms.value_and_grad(loss, None, weights=self.optimizer.parameters)

    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        loss, gradients = self.gradients(ids, labels)
        self.optimizer(gradients)
        return loss
