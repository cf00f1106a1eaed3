"""One step of AdamW (arXiv:1711.05101) over all weights, in place, as torch.optim.AdamW computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from mindport.errors import UsageError
from mindport.model.kernels.native import native, refusal
from mindport.model.kernels.selector import Kernel, select


def adamw(*, decay: Sequence[float], betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> Kernel:
    """Called as `(weights, m, v, gradients, lr, scale, step)` → something to depend on.

    The first four are tuples of n tensors each, float32; the first three are changed. lr and scale, which multiplies
    the gradients, are float32 (), step is int32 () and counts from 1. Where scale is not finite nothing changes.

    Args:
        decay: of each weight, n numbers.
        betas: of the means of the gradient and of its square.
        eps: added to the square root.
    """
    paths = {"ascend": Ascend, "cpu": Cpu, "reference": Reference}
    return select("adamw", paths, decay=tuple(decay), betas=betas, eps=eps)


def log(beta: float) -> float:
    """ln β, also of 0, which makes a mean of its last value alone."""
    return math.log(beta) if beta else -math.inf


class Correction(Kernel):
    """1 − βᵗ, from step t and ln β; float32 of 1 − exp(…) would keep two digits of it in the first steps."""

    def __init__(self) -> None:
        super().__init__()
        self.exp, self.where, self.float32 = ops.exp, ops.where, ms.float32

    def construct(self, step: Tensor, log_beta: float) -> Tensor:
        y = step.astype(self.float32) * -log_beta
        series = 1.0
        for n in (8, 7, 6, 5, 4, 3, 2):
            series = 1.0 - y / n * series
        return self.where(y < 0.5, y * series, 1.0 - self.exp(-y))


class InPlace(Kernel):
    """A path of AdamW. Under mixed precision Graph mode would hand it copies of the weights: it would train nothing."""

    def add_flags(self, **flags: Any) -> InPlace:
        """Refuse the flags that mixed precision sets on every cell.

        Raises:
            UsageError: it is one of them.
        """
        if flags.get("fp16") or flags.get("bf16"):
            raise UsageError("mixed precision is for the model, not for the optimizer that changes its weights",
                             where="AdamW", do="auto_mixed_precision(model, …), then the training step")  # fmt: skip
        return super().add_flags(**flags)


class Reference(InPlace):
    """Plain operators, one weight after the other."""

    def __init__(self, *, decay: tuple[float, ...], betas: tuple[float, float], eps: float) -> None:
        super().__init__()
        self.decay, self.betas, self.eps = decay, betas, eps
        self.logs = tuple(map(log, betas))
        self.correction, self.assign, self.sqrt = Correction(), ops.Assign(), ops.Sqrt()
        self.is_finite, self.where = ops.isfinite, ops.where

    def construct(self, weights: Any, m: Any, v: Any, gradients: Any, lr: Tensor, scale: Tensor, step: Tensor) -> Any:
        size = lr / self.correction(step, self.logs[0])
        root = self.sqrt(self.correction(step, self.logs[1]))
        moves = self.is_finite(scale)
        for i in range(len(self.decay)):
            gradient = gradients[i] * scale
            mean = m[i] + (1.0 - self.betas[0]) * (gradient - m[i])
            square = self.betas[1] * v[i] + (1.0 - self.betas[1]) * gradient * gradient
            kept = weights[i] * (1.0 - lr * self.decay[i])
            weight = kept - size * mean / (self.sqrt(square) / root + self.eps)
            self.assign(m[i], self.where(moves, mean, m[i]))
            self.assign(v[i], self.where(moves, square, v[i]))
            self.assign(weights[i], self.where(moves, weight, weights[i]))
        return step


class Ascend(InPlace):
    """`ops.AdamWeightDecay`, which corrects no bias: its rate, ε and decay are rescaled so that it comes to the same.

    With c1 = 1 − β1ᵗ and c2 = √(1 − β2ᵗ) these are lr·c2/c1, ε·c2 and decay·c1/c2. The operator also runs on a CPU,
    where it is held to PyTorch; on the device it is unverified. It has no way to do nothing: with a rate, a decay and
    gradients of 0, and betas of 1, it comes to that.
    """

    def __init__(self, *, decay: tuple[float, ...], betas: tuple[float, float], eps: float) -> None:
        super().__init__()
        self.decay, self.betas, self.eps = decay, betas, eps
        self.logs = tuple(log(float(np.float32(beta))) for beta in betas)  # the operator rounds its betas
        self.correction, self.update, self.sqrt = Correction(), ops.AdamWeightDecay(), ops.Sqrt()
        self.is_finite, self.where, self.one = ops.isfinite, ops.where, Tensor(1, ms.int32)

    def construct(self, weights: Any, m: Any, v: Any, gradients: Any, lr: Tensor, scale: Tensor, step: Tensor) -> Any:
        moves, counted = self.is_finite(scale), self.where(step > 0, step, self.one)
        c1, c2 = self.correction(counted, self.logs[0]), self.sqrt(self.correction(counted, self.logs[1]))
        size, eps = self.where(moves, lr * c2 / c1, 0.0), self.eps * c2
        beta1, beta2 = self.where(moves, self.betas[0], 1.0), self.where(moves, self.betas[1], 1.0)
        for i in range(len(self.decay)):
            decay, gradient = self.decay[i] * c1 / c2, self.where(moves, gradients[i] * scale, 0.0)
            self.update(weights[i], m[i], v[i], size, beta1, beta2, eps, decay, gradient)
        return step


class Cpu(InPlace):
    """One call for all weights, in one pass over the memory, in C++ (cpp/adamw.cc)."""

    def __init__(self, *, decay: tuple[float, ...], betas: tuple[float, float], eps: float) -> None:
        super().__init__()
        self.decay, self.settings = Tensor(decay, ms.float32), Tensor((*betas, eps), ms.float64)
        self.update = native("adamw", lambda *inputs: (1,))
        # What it writes are its inputs: without this mark, Graph mode runs it before or after what reads them
        self.update.add_prim_attr("side_effect_mem", True)

    @staticmethod
    def refuses(**settings: object) -> str | None:
        return refusal()

    def construct(self, weights: Any, m: Any, v: Any, gradients: Any, lr: Tensor, scale: Tensor, step: Tensor) -> Any:
        return self.update(*weights, *m, *v, *gradients, self.decay, self.settings, lr, scale, step)
