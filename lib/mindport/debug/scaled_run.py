"""A few steps under MindSpore's own dynamic loss scaler, written out: scale, unscale, look, skip or step, adjust."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from mindport.debug.loss_scale import LossScaleReport, ScaledStep, explain_loss_scale

START, FACTOR, WINDOW, RATE = 2.0**18, 2, 4, 0.05


class HalfLoss(nn.Cell):
    """A regression with its products in float16: too large a scale overflows on the way back.

    Args:
        steep: take the root of the loss plus that of a zero: a slope that no scale can mend.
    """

    def __init__(self, steep: bool) -> None:
        super().__init__()
        noise = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)
        self.x, self.y = Tensor(noise), Tensor(noise[:, :1] * 3)
        self.weight = Parameter(Tensor(np.zeros((1, 4), np.float32)), name="weight")
        self.steep = steep

    def construct(self) -> Tensor:
        out = ops.matmul(self.x.astype(ms.float16), self.weight.astype(ms.float16).T).astype(ms.float32)
        loss = ((out - self.y) ** 2).mean()
        return loss + ops.sqrt(0 * loss) if self.steep else loss


def scaled_run(*, steep: bool = False, counts_skipped: bool = False, steps: int = 24) -> LossScaleReport:
    """Train `HalfLoss` under `ms.amp.DynamicLossScaler`, and judge the history.

    Args:
        steep: plant an infinite slope.
        counts_skipped: plant a counter that advances in skipped steps too.
        steps: how many.
    """
    loss, scaler = HalfLoss(steep), ms.amp.DynamicLossScaler(START, FACTOR, WINDOW)
    weights = loss.trainable_params()
    gradients_of = ms.value_and_grad(lambda: scaler.scale(loss()), None, weights)
    history, updates = [], 0
    for _ in range(steps):
        scale = float(scaler.scale_value)
        gradients = scaler.unscale(gradients_of()[1])
        finite = ms.amp.all_finite(gradients)
        if finite:
            for weight, gradient in zip(weights, gradients, strict=True):
                ops.assign_sub(weight, RATE * gradient)
        updates += bool(finite) or counts_skipped
        scaler.adjust(finite)
        history.append(ScaledStep(scale, bool(finite), updates))
    return explain_loss_scale(history)
