"""The learning rate as a function of the step, computed inside the graph.

Each is the schedule of the same name in transformers (`get_constant_schedule_with_warmup`, …linear…, …cosine…):

    step < warmup      lr · step / warmup: the first step moves nothing
    afterwards         Constant    lr
                       Linear      from lr down to 0 at step `total`, and 0 from there
                       Cosine      half a cosine from lr down to 0 at step `total`; beyond it rises again
"""

from __future__ import annotations

import math

import mindspore as ms
from mindspore import Tensor, nn, ops

from mindport.errors import UsageError


class Schedule(nn.Cell):
    """Steps taken so far, int32 (), → the rate of the next one, float32 ().

    Args:
        lr: the rate after the warm-up.
        warmup: steps in which it rises to that.

    Raises:
        UsageError: numbers that make no schedule.
    """

    def __init__(self, lr: float, *, warmup: int = 0) -> None:
        super().__init__()
        if not lr >= 0 or not math.isfinite(lr):
            raise UsageError("this is no learning rate", got=lr, expected="a number, not negative")
        if warmup < 0:
            raise UsageError("a warm-up takes a number of steps", got=warmup, expected="0 or more")
        self.lr, self.warmup, self.float32, self.where = lr, warmup, ms.float32, ops.where

    def construct(self, step: Tensor) -> Tensor:
        rising = step.astype(self.float32) / max(1, self.warmup)
        return self.lr * self.where(step < self.warmup, rising, self.after(step))

    def after(self, step: Tensor) -> Tensor:
        """The share of `lr` that is left after the warm-up."""
        raise NotImplementedError


class Constant(Schedule):
    """`lr`, after the warm-up."""

    def after(self, step: Tensor) -> Tensor:
        return 1.0 + 0.0 * step.astype(self.float32)


class Linear(Schedule):
    """Down to 0 at step `total`.

    Args:
        lr: the rate after the warm-up.
        total: steps of the whole run.
        warmup: steps of them in which the rate rises.

    Raises:
        UsageError: numbers that make no schedule.
    """

    def __init__(self, lr: float, *, total: int, warmup: int = 0) -> None:
        super().__init__(lr, warmup=warmup)
        if total <= warmup:
            raise UsageError("the warm-up takes the whole run", got=f"{warmup} of {total} steps", expected="fewer")
        self.total = total

    def left(self, step: Tensor) -> Tensor:
        """The share of the steps after the warm-up that is left: 1 … 0, and below."""
        return (self.total - step).astype(self.float32) / (self.total - self.warmup)

    def after(self, step: Tensor) -> Tensor:
        left = self.left(step)
        return self.where(left > 0.0, left, 0.0)


class Cosine(Linear):
    """½ (1 + cos(π · done)), written sin²(½ π · left), which keeps its digits where the rate is nearly 0."""

    def __init__(self, lr: float, *, total: int, warmup: int = 0) -> None:
        super().__init__(lr, total=total, warmup=warmup)
        self.sin, self.quarter = ops.Sin(), math.pi / 2

    def after(self, step: Tensor) -> Tensor:
        root = self.sin(self.quarter * self.left(step))
        return root * root
