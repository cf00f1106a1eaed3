"""The norm of all gradients, and what they are to be multiplied by to keep it within a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops

from mindport.errors import UsageError
from mindport.model import kernels
from mindport.model.collectives import SplitNorm

EPS = 1e-6  # torch's


class ClipNorm(nn.Cell):
    """gradients → (norm, scale), two scalars: min(1, max_norm / (norm + 1e-6)) as in torch's `clip_grad_norm_`.

    The gradients themselves stay as they are, so that whoever reads them next can multiply on the way. Sums and scaled
    gradients come with what they are to be divided by: the norm is then that of the quotients, and the scale divides
    as well. A norm that is not a number makes a scale that is not one either.

    Args:
        max_norm: the limit; without one the norm is still measured, and the scale is 1.
        split: of each gradient, whether this rank has a part of it; the others are whole on every rank. Nothing where
            no ranks share the weights.
        group: the ranks that do.

    Raises:
        UsageError: the limit is not positive.
    """

    def __init__(self, max_norm: float | None = None, split: Sequence[bool] = (), group: str = "") -> None:
        super().__init__()
        if max_norm is not None and not max_norm > 0:
            raise UsageError("gradients cannot be clipped to this norm", got=max_norm, expected="a positive number")
        self.max_norm, self.eps, self.one = max_norm, EPS, Tensor(1.0, ms.float32)
        self.norm, self.where = SplitNorm(split, group) if any(split) else kernels.global_norm(), ops.where

    def construct(self, gradients: tuple[Tensor, ...], divisor: Any = None) -> tuple[Tensor, Tensor]:
        norm = self.norm(gradients)
        if divisor is None:
            return norm, self.within(norm)
        norm = norm / divisor
        return norm, self.within(norm) / divisor

    def within(self, norm: Tensor) -> Tensor:
        """What brings this norm within the limit."""
        if self.max_norm is None:
            return self.one
        scale = self.max_norm / (norm + self.eps)
        return self.where(scale > 1.0, self.one, scale)  # not a minimum, which may lose NaN
