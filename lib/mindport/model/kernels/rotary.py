"""Rotary positions: the pair (x[i], x[i + D/2]) is turned by the angle of its position (arXiv:2104.09864).

This is the "rotate half" pairing of Hugging Face's checkpoints, not the neighbouring pairs of the paper.
"""

from __future__ import annotations

from mindspore import Tensor, ops

from mindport.model.kernels.selector import Kernel, select


def rope(*, head_dim: int) -> Kernel:
    """Turn queries or keys; called as `(x, cos, sin)`: (B, H, T, D), twice (B or 1, T, D/2) → (B, H, T, D)."""
    return select("rope", {"ascend": Ascend, "reference": Reference}, head_dim=head_dim)


class Reference(Kernel):
    """Four products of half the width; cos and sin are not doubled to D."""

    def __init__(self, *, head_dim: int) -> None:
        super().__init__()
        self.half = head_dim // 2
        self.concat = ops.Concat(-1)

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        cos, sin = cos.expand_dims(1), sin.expand_dims(1)  # (B, 1, T, D/2)
        left, right = x[..., : self.half], x[..., self.half :]
        return self.concat((left * cos - right * sin, right * cos + left * sin))


class Ascend(Kernel):
    """`ops.rotary_position_embedding`, mode 0. Checked here by a fake that records its arguments, never run."""

    def __init__(self, *, head_dim: int) -> None:
        super().__init__()
        self.rotate, self.concat = ops.rotary_position_embedding, ops.Concat(-1)

    @staticmethod
    def refuses(*, head_dim: int) -> str | None:
        """The limits in the operator's documentation."""
        return None if head_dim % 2 == 0 and head_dim < 896 else f"an even head_dim below 896, not {head_dim}"

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        cos, sin = self.concat((cos, cos)), self.concat((sin, sin))  # (B, T, D)
        return self.rotate(x, cos.expand_dims(1).astype(x.dtype), sin.expand_dims(1).astype(x.dtype), 0)
