"""Causal attention, with keys and values that may be longer than the queries.

    query i sees key j  ⇔  i + offset - window < j <= i + offset        (no window: no lower end)

`offset` is the number of keys before the first query: 0 for a whole sequence (S = T), S − T after a cache that
ends with the queries, or any number (an int32 tensor too) for a cache of fixed length S whose tail is unwritten.
Query heads share key/value heads in order (GQA): head h reads key/value head h // (heads / kv_heads).
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from mindport.model.kernels.selector import Kernel, select


def attention(
    *, heads: int, kv_heads: int, head_dim: int, scale: float, dropout: float, dtype: str, window: int | None = None,
    upcast: bool = False,
) -> Kernel:  # fmt: skip
    """softmax(q kᵀ · scale + causal mask) v.

    The kernel is called as `(q, k, v, offset=None)`: q (B, T, H, D), k and v (B, S, K, D), S ≥ T → (B, T, H, D);
    None stands for S − T. The projections make this layout, so a model has nothing to transpose.

    Args:
        heads, kv_heads, head_dim: H, K, D.
        scale: multiplies the scores.
        dropout: probability of dropping an attention weight in training.
        dtype: of q, k and v.
        window: how many keys a query sees, its own included; None for all before it.
        upcast: compute q kᵀ in float32 too, and not the softmax alone.
    """
    return select(
        "attention",
        {"ascend": Ascend, "reference": Reference},
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        scale=scale,
        dropout=dropout,
        dtype=dtype,
        window=window,
        upcast=upcast,
    )


class Reference(Kernel):
    """Matrix product, softmax, matrix product.

    Heads that share a key are rows of one product, so k and v are never repeated; the mask is laid out in full
    before it is added, since the broadcasting addition is several times slower on a CPU.
    """

    def __init__(
        self, *, scale: float, dropout: float, dtype: str, window: int | None = None, upcast: bool = False, **_: Any
    ) -> None:  # fmt: skip
        super().__init__()
        self.scale, self.window, self.upcast = scale, window, upcast
        self.lowest = Tensor(np.finfo(np.float32).min)  # not -inf: a row with nothing to see would be NaN
        self.zero, self.float32 = Tensor(np.float32(0)), ms.float32
        self.arange, self.tile, self.where, self.either = ops.arange, ops.Tile(), ops.where, ops.LogicalOr()
        self.scores, self.context = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
        self.softmax = ops.Softmax(-1)
        self.dropout = nn.Dropout(p=dropout)
        self.swap, self.axes = ops.Transpose(), (0, 2, 1, 3)  # tokens and heads

    def construct(self, q: Tensor, k: Tensor, v: Tensor, offset: Any = None) -> Tensor:
        b, t, h, d = q.shape
        s, kv = k.shape[1], k.shape[2]
        if self.upcast:
            q, k = q.astype(self.float32), k.astype(self.float32)
        q, k, v = self.swap(q * self.scale, self.axes), self.swap(k, self.axes), self.swap(v, self.axes)
        scores = self.scores(q.reshape((b, kv, h // kv * t, d)), k)  # (B, K, H/K·T, S)
        scores = scores.astype(self.float32) + self.mask(b * h, t, s, offset).reshape(scores.shape)
        weights = self.dropout(self.softmax(scores).astype(v.dtype))
        return self.swap(self.context(weights, v).reshape((b, h, t, d)), self.axes)

    def mask(self, copies: int, t: int, s: int, offset: Any) -> Tensor:
        """0 where a query sees a key, the lowest float32 where it does not; (copies, T, S)."""
        last = self.arange(t).reshape((t, 1)) + (s - t if offset is None else offset)
        keys = self.arange(s).reshape((1, s))
        hidden = keys > last  # never a product: mixed precision makes it 0 · inf
        if self.window is not None:
            hidden = self.either(hidden, keys <= last - self.window)
        return self.tile(self.where(hidden, self.lowest, self.zero).reshape((1, t, s)), (copies, 1, 1))


class Ascend(Kernel):
    """`ops.flash_attention_score`, layout BSND. Checked here by a fake that records its arguments, never run."""

    ALL = 2147483647  # the operator's own default: no end
    COMPRESSED = 2048  # side of the upper triangle that stands for a causal mask of any length

    def __init__(self, *, heads: int, scale: float, dropout: float, window: int | None = None, **_: Any) -> None:
        super().__init__()
        self.heads, self.scale, self.window = heads, scale, window
        # a band is counted from the lower right corner, both ends included
        self.sparse_mode, self.before, self.after = (3, self.ALL, self.ALL) if window is None else (4, window - 1, 0)
        self.p = dropout
        self.flash, self.arange, self.either = ops.flash_attention_score, ops.arange, ops.LogicalOr()
        self.dropout_bits, self.float32 = ops.DropoutGenMask(), ms.float32
        self.keep = Tensor(1 - dropout, ms.float32)
        self.future = Tensor(np.triu(np.ones((self.COMPRESSED, self.COMPRESSED), np.bool_), 1))

    @staticmethod
    def refuses(*, heads: int, head_dim: int, dtype: str, upcast: bool = False, **_: Any) -> str | None:
        """The limits in the operator's documentation, which does not say in what precision it has the scores."""
        if upcast:
            return "no promise of scores in float32"
        if dtype not in ("float16", "bfloat16"):
            return f"float16 and bfloat16, not {dtype}"
        if head_dim % 16 or head_dim > 512:
            return f"a head_dim that is a multiple of 16 up to 512, not {head_dim}"
        return f"at most 256 heads, not {heads}" if heads > 256 else None

    def construct(self, q: Tensor, k: Tensor, v: Tensor, offset: Any = None) -> Tensor:
        t, s = q.shape[1], k.shape[1]
        if offset is None:
            mask, sparse_mode = self.future, self.sparse_mode  # aligned at the lower right
        else:
            keys, last = self.arange(s).reshape((1, s)), self.arange(t).reshape((t, 1)) + offset
            mask, sparse_mode = keys > last, 0
            if self.window is not None:
                mask = self.either(mask, keys <= last - self.window)
        drop_mask, keep_prob = None, 1.0
        if self.training and self.p > 0:
            bits = self.dropout_bits((q.shape[0], self.heads, t, s), self.keep)
            drop_mask, keep_prob = bits.reshape((q.shape[0], self.heads, t, s // 8)), 1 - self.p
        return self.flash(
            q, k, v, self.heads, drop_mask=drop_mask, attn_mask=mask, keep_prob=keep_prob,
            scalar_value=self.scale, pre_tokens=self.before if offset is None else self.ALL,
            next_tokens=self.after if offset is None else self.ALL, input_layout="BSND", sparse_mode=sparse_mode,
        )  # fmt: skip
