"""Rotary positions: the pair (x[i], x[i + D/2]) is turned by the angle of its position (arXiv:2104.09864).

This is the "rotate half" pairing of Hugging Face's checkpoints, not the neighbouring pairs of the paper.
"""

from __future__ import annotations

from typing import Any

from mindspore import Tensor, ops

from mindport.model.kernels.native import Native, native
from mindport.model.kernels.selector import Kernel, select


def rope(*, head_dim: int, rotary_dim: int | None = None, dtype: str = "float32") -> Kernel:
    """Turn queries or keys; called as `(x, cos, sin)`: (B, T, H, D), twice (B or 1, T, R/2) → (B, T, H, D).

    Args:
        head_dim: D.
        rotary_dim: R, the first dimensions, which are turned; None for all of D.
        dtype: of x, cos and sin.
    """
    paths = {"ascend": Ascend, "cpu": Cpu, "reference": Reference}
    return select("rope", paths, head_dim=head_dim, rotary_dim=rotary_dim or head_dim, dtype=dtype)


class Reference(Kernel):
    """Four products of half the width; cos and sin are not doubled to R."""

    def __init__(self, *, head_dim: int, rotary_dim: int, **_: Any) -> None:
        super().__init__()
        self.half, self.turned, self.partly = rotary_dim // 2, rotary_dim, rotary_dim < head_dim
        self.concat = ops.Concat(-1)

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        cos, sin = cos.expand_dims(2), sin.expand_dims(2)  # (B, T, 1, R/2)
        left, right = x[..., : self.half], x[..., self.half : self.turned]
        if self.partly:
            return self.concat((left * cos - right * sin, right * cos + left * sin, x[..., self.turned :]))
        return self.concat((left * cos - right * sin, right * cos + left * sin))


class Ascend(Kernel):
    """`ops.rotary_position_embedding`, mode 0. Checked here by a fake that records its arguments, never run."""

    def __init__(self, *, head_dim: int, rotary_dim: int, **_: Any) -> None:
        super().__init__()
        self.turned, self.partly = rotary_dim, rotary_dim < head_dim
        self.rotate, self.concat = ops.rotary_position_embedding, ops.Concat(-1)

    @staticmethod
    def refuses(*, rotary_dim: int, **_: Any) -> str | None:
        """The limits in the operator's documentation, on what is turned."""
        fits = rotary_dim % 2 == 0 and rotary_dim < 896
        return None if fits else f"an even number of rotated dimensions below 896, not {rotary_dim}"

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        cos, sin = self.concat((cos, cos)), self.concat((sin, sin))  # (B, T, R)
        turned = x[..., : self.turned] if self.partly else x
        turned = self.rotate(turned, cos.expand_dims(2).astype(x.dtype), sin.expand_dims(2).astype(x.dtype), 0)
        return self.concat((turned, x[..., self.turned :])) if self.partly else turned


class Cpu(Native):
    """One pass over x in C++ (cpp/rotary.cc); the gradient turns back. cos and sin are constants: theirs is 0."""

    def __init__(self, **_: Any) -> None:
        super().__init__()
        back, zeros = native("rope_grad", lambda dy, cos, sin: dy), ops.zeros_like

        def gradient(x: Any, cos: Any, sin: Any, y: Any, dy: Any) -> Any:
            return back(dy, cos, sin), zeros(cos), zeros(sin)

        self.fused = native("rope", lambda x, cos, sin: x, gradient)

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return self.fused(x, cos, sin)
