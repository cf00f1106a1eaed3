"""Causal attention, with keys and values that may be longer than the queries.

    query i sees key j  ⇔  i + offset - window < j <= i + offset        (no window: no lower end)

`offset` is the number of keys before the first query: 0 for a whole sequence (S = T), S − T after a cache that
ends with the queries, or any number (an int32 tensor too) for a cache of fixed length S whose tail is unwritten.
`lengths`, int32 (B,), tells how many tokens of each sequence are real (i + offset < length); what follows is padding.
A query that is padding, or that sees no key, gives zeros and has no gradient.
Query heads share key/value heads in order (GQA): head h reads key/value head h // (heads / kv_heads).
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops

from mindport.errors import UsageError
from mindport.model.kernels.causal_mask import Masked
from mindport.model.kernels.drop import Kept, Place, Placed, check
from mindport.model.kernels.drop import dropout as drop_kernel
from mindport.model.kernels.native import Native, native, refusal
from mindport.model.kernels.selector import Kernel, select


def attention(
    *, heads: int, kv_heads: int, head_dim: int, scale: float, dropout: float, dtype: str, window: int | None = None,
    upcast: bool = False, place: Place | None = None,
) -> Kernel:  # fmt: skip
    """softmax(q kᵀ · scale + causal mask) v.

    The kernel is called as `(q, k, v, offset=None, lengths=None)`: q (B, T, H, D), k and v (B, S, K, D), S ≥ T →
    (B, T, H, D); offset None stands for S − T, lengths None for no padding. The projections make this layout, so a
    model has nothing to transpose.

    Args:
        heads, kv_heads, head_dim: H, K, D.
        scale: multiplies the scores.
        dropout: probability of dropping an attention weight in training.
        dtype: of q, k and v.
        window: how many keys a query sees, its own included; None for all before it.
        upcast: compute q kᵀ in float32 too, and not the softmax alone.
        place: where dropout's random numbers come from (drop.py); its rows are (b, h, query), its columns keys.

    Raises:
        UsageError: the numbers make no attention.
    """
    check(dropout, place)
    if min(heads, kv_heads, head_dim) < 1 or heads % kv_heads:
        raise UsageError("these heads make no attention", got=f"{heads} on {kv_heads}, head_dim {head_dim}",
                         expected="positive numbers, and heads a multiple of kv_heads")  # fmt: skip
    if window is not None and window < 1:
        raise UsageError("a window holds the query's own key at least", got=window, expected="1 or more, or None")
    return select(
        "attention",
        {"ascend": Ascend, "cpu": Cpu, "reference": Reference},
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        scale=scale,
        dropout=dropout,
        dtype=dtype,
        window=window,
        upcast=upcast,
        place=place,
    )


class Reference(Masked):
    """Matrix product, softmax, matrix product.

    Heads that share a key are rows of one product, so k and v are never repeated; the mask is laid out in full
    before it is added, since the broadcasting addition is several times slower on a CPU.
    """

    def __init__(
        self, *, scale: float, dropout: float, window: int | None = None, upcast: bool = False,
        place: Place | None = None, **_: Any,
    ) -> None:  # fmt: skip
        super().__init__(window)
        self.scale, self.upcast, self.float32 = scale, upcast, ms.float32
        self.lowest = Tensor(np.finfo(np.float32).min)  # not -inf: a row with nothing to see would be NaN
        self.scores, self.context = ops.BatchMatMul(transpose_b=True), ops.BatchMatMul()
        self.softmax, self.tile = ops.Softmax(-1), ops.Tile()
        self.ones = ops.OnesLike()  # a first softmax over one key would spoil the gradients of all later ones, on a CPU
        self.drops = dropout > 0
        if self.drops:
            self.drop = drop_kernel(p=dropout, place=place)
        self.swap, self.axes = ops.Transpose(), (0, 2, 1, 3)  # tokens and heads

    def construct(self, q: Tensor, k: Tensor, v: Tensor, offset: Any = None, lengths: Any = None) -> Tensor:
        b, t, h, d = q.shape
        s, kv = k.shape[1], k.shape[2]
        if self.upcast:
            q, k = q.astype(self.float32), k.astype(self.float32)
        q, k, v = self.swap(q * self.scale, self.axes), self.swap(k, self.axes), self.swap(v, self.axes)
        scores = self.scores(q.reshape((b, kv, h // kv * t, d)), k)  # (B, K, H/K·T, S)
        scores = scores.astype(self.float32) + self.mask(b * h, t, s, offset).reshape(scores.shape)
        weights = (self.softmax(scores) if s > 1 else self.ones(scores)).astype(v.dtype)
        weights = self.drop(weights) if self.drops and self.training else weights
        out = self.swap(self.context(weights, v).reshape((b, h, t, d)), self.axes)
        return self.blank(out, s, offset, lengths)

    def mask(self, copies: int, t: int, s: int, offset: Any) -> Tensor:
        """0 where a query sees a key, the lowest float32 where it does not; (copies, T, S)."""
        hidden = self.hidden(t, s, offset).reshape((1, t, s))  # never a product: mixed precision makes it 0 · inf
        return self.tile(self.where(hidden, self.lowest, self.zero), (copies, 1, 1))


class Cpu(Native, Placed):
    """Softmax by blocks of keys in C++ (cpp/attention.cc): no array of all scores, hidden blocks left out.

    For its gradient it keeps the output and one number for each query, and computes the weights again
    (cpp/attention_grad.cc), and which of them were dropped. Where mixed precision gives it other types than float32, it
    computes as the reference does.
    """

    END = 2147483647  # no window, no padding
    ALIGNED = -2147483648  # an offset of S − T

    def __init__(
        self, *, scale: float, dropout: float, window: int | None = None, place: Place | None = None, **settings: Any
    ) -> None:  # fmt: skip
        super().__init__(place)
        self.drops = dropout > 0
        self.reference = Reference(scale=scale, dropout=dropout, window=window, place=place, **settings)
        self.still, self.nothing = Tensor([0, 0], ms.int32), Tensor([0, 0, 0, 1, 0], ms.int32)
        self.drop = place.drop(dropout) if place else self.nothing
        self.scale, self.window = Tensor(scale, ms.float32), Tensor(self.END if window is None else window, ms.int32)
        self.aligned, self.endless = Tensor(self.ALIGNED, ms.int32), Tensor([self.END], ms.int32)
        self.none, self.int32, self.float32 = Tensor(0, ms.int32), ms.int32, ms.float32
        self.attend = native("attention", _outputs, _gradient(), outputs=2)

    @staticmethod
    def refuses(*, head_dim: int, dtype: str, **_: Any) -> str | None:
        if head_dim % 8 or head_dim > 256:
            return f"a head_dim that is a multiple of 8 up to 256, not {head_dim}"
        return refusal(dtype)

    def construct(self, q: Tensor, k: Tensor, v: Tensor, offset: Any = None, lengths: Any = None) -> Tensor:
        if q.dtype != self.float32:
            return self.reference(q, k, v, offset, lengths)
        start = self.aligned if offset is None else (self.none + offset).astype(self.int32)
        real = self.endless if lengths is None else lengths.astype(self.int32)
        state, drop = (self.state, self.drop) if self.drops and self.training else (self.still, self.nothing)
        return self.attend(q, k, v, self.scale, self.window, start, real, state, drop)[0]


def _outputs(q: Any, *_: Any) -> tuple[Any, Any]:
    """The output as q (B, T, H, D), and the logarithm of each query's sum (B, H, T)."""
    return q, (q[0], q[2], q[1])


def _gradient() -> Any:
    gradient = native("attention_grad", lambda q, k, v, *_: (q, k, v), outputs=3)

    def backward(q, k, v, scale, window, offset, lengths, state, drop, outputs, d_outputs):  # type: ignore[no-untyped-def]
        out, log_sum = outputs
        d_q, d_k, d_v = gradient(q, k, v, scale, window, offset, lengths, state, drop, out, log_sum, d_outputs[0])
        return d_q, d_k, d_v, scale, window, offset, lengths, state, drop

    return backward


class Ascend(Masked):
    """`ops.flash_attention_score`, layout BSND. Checked here by a fake that records its arguments, never run."""

    ALL = 2147483647  # the operator's own default: no end
    COMPRESSED = 2048  # side of the upper triangle that stands for a causal mask of any length

    def __init__(
        self, *, heads: int, scale: float, dropout: float, window: int | None = None, place: Place | None = None,
        **_: Any,
    ) -> None:  # fmt: skip
        super().__init__(window)
        self.heads, self.scale = heads, scale
        # a band is counted from the lower right corner, both ends included
        self.sparse_mode, self.before, self.after = (3, self.ALL, self.ALL) if window is None else (4, window - 1, 0)
        self.p = dropout
        self.flash = ops.flash_attention_score
        self.kept = Kept(dropout, place)
        self.bits, self.int32, self.uint8 = Tensor([1 << n for n in range(8)], ms.int32), ms.int32, ms.uint8
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

    def construct(self, q: Tensor, k: Tensor, v: Tensor, offset: Any = None, lengths: Any = None) -> Tensor:
        t, s = q.shape[1], k.shape[1]
        if offset is None:
            mask, sparse_mode = self.future, self.sparse_mode  # aligned at the lower right
        else:
            mask, sparse_mode = self.hidden(t, s, offset), 0
        drop_mask, keep_prob = None, 1.0
        if self.training and self.p > 0:
            kept = self.kept(q.shape[0] * self.heads * t, s, q.shape[0]).reshape((-1, 8)).astype(self.int32)
            packed = (kept * self.bits).sum(-1).astype(self.uint8)
            drop_mask, keep_prob = packed.reshape((q.shape[0], self.heads, t, s // 8)), 1 - self.p
        out = self.flash(
            q, k, v, self.heads, drop_mask=drop_mask, attn_mask=mask, keep_prob=keep_prob,
            scalar_value=self.scale, pre_tokens=self.before if offset is None else self.ALL,
            next_tokens=self.after if offset is None else self.ALL, input_layout="BSND", sparse_mode=sparse_mode,
        )  # fmt: skip
        return self.blank(out, s, offset, lengths)
