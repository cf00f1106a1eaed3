"""The causal mask of attention: which keys a query does not see, and which queries see none."""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor, ops

from mindport.model.kernels.selector import Kernel


class Masked(Kernel):
    """Who sees whom, as tensors, for the paths that are made of MindSpore's operators.

    Args:
        window: how many keys a query sees, its own included; None for all before it. (It has a default only because
            mixed precision level O1 calls a base class's `__init__` without arguments, and copies attributes after.)
    """

    def __init__(self, window: int | None = None) -> None:
        super().__init__()
        self.window, self.zero = window, Tensor(np.float32(0))
        self.arange, self.where, self.either, self.both = ops.arange, ops.where, ops.LogicalOr(), ops.LogicalAnd()

    def hidden(self, t: int, s: int, offset: Any) -> Tensor:
        """Which keys a query does not see, (T, S)."""
        last = self.arange(t).reshape((t, 1)) + (s - t if offset is None else offset)
        keys = self.arange(s).reshape((1, s))
        hidden = keys > last
        return hidden if self.window is None else self.either(hidden, keys <= last - self.window)

    def blank(self, out: Tensor, s: int, offset: Any, lengths: Any) -> Tensor:
        """(B, T, H, D) with zeros for the queries that are padding or see nothing."""
        t = out.shape[1]
        if offset is None and lengths is None and s >= t:
            return out
        last = self.arange(t).reshape((1, t)) + (s - t if offset is None else offset)
        seen = last >= 0
        if self.window is not None:
            seen = self.both(seen, last - self.window < s - 1)
        if lengths is not None:
            seen = self.both(seen, last < lengths.reshape((-1, 1)))
        return self.where(seen.reshape((-1, t, 1, 1)), out, self.zero.astype(out.dtype))
