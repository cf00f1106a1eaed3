"""The cells of a GPT in NumPy and float64, each part of which can be computed wrongly.

`Attending` is attention as a set of choices; a suspected mistake is the right set with one choice exchanged.
Shapes: B batch, T tokens (and keys), H query heads, K key/value heads, D head_dim, d features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindport.config.model_config import ModelConfig, Rope

Array = np.ndarray
LOWEST = float(np.finfo(np.float32).min)


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x Wᵀ + b."""
    return x @ weight.T + (0.0 if bias is None else bias)


def normalise(x: Array, eps: float, centred: bool, spare: int = 0, outside: bool = False) -> Array:
    """x over its deviation.

    Args:
        x: (…, d).
        eps: added to the variance; with `outside`, to the deviation.
        centred: as layer norm does.
        spare: how much less than d the squares are divided by.
        outside: see `eps`.
    """
    x = x - x.mean(-1, keepdims=True) if centred else x
    variance = (x * x).sum(-1, keepdims=True) / (x.shape[-1] - spare)
    return x / (np.sqrt(variance) + eps if outside else np.sqrt(variance + eps))


def erf_gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


def tanh_gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": erf_gelu,
    "gelu_tanh": tanh_gelu,
    "silu": lambda x: x * sigmoid(x),
    "relu": lambda x: np.maximum(x, 0),
    "quick gelu, x σ(1.702 x)": lambda x: x * sigmoid(1.702 * x),
    "relu²": lambda x: np.maximum(x, 0) ** 2,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "none": lambda x: x,
}


def causal(queries: Array, keys: Array, window: int | None) -> Array:
    """Which keys are hidden from a query: those after it, and those before its window."""
    hidden = keys > queries
    return hidden if window is None else hidden | (keys <= queries - window)


def softmax(scores: Array, axis: int = -1) -> Array:
    e = np.exp(scores - scores.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def fill(scores: Array, hidden: Array, value: float = LOWEST) -> Array:
    return np.where(hidden, value, scores)


def masked(scores: Array, hidden: Array) -> Array:
    """Weights of the keys that are not hidden."""
    return softmax(fill(scores, hidden))


def halves(x: Array, cos: Array, sin: Array) -> Array:
    """Turn the pairs (x[i], x[i + R/2])."""
    left, right = np.split(x, 2, -1)
    return np.concatenate((left * cos - right * sin, right * cos + left * sin), -1)


def neighbours(x: Array, cos: Array, sin: Array) -> Array:
    """Turn the pairs (x[2i], x[2i + 1])."""
    left, right = x[..., 0::2], x[..., 1::2]
    return np.stack((left * cos - right * sin, right * cos + left * sin), -1).reshape(x.shape)


def repeated(x: Array, times: int) -> Array:
    """Key/value heads for the query heads: each so many times in a row."""
    return np.repeat(x, times, axis=2)


def tiled(x: Array, times: int) -> Array:
    """All of them, so many times."""
    return np.tile(x, (1, 1, times, 1))


@dataclass(frozen=True)
class Attending:
    """How a layer attends.

    Attributes:
        heads, kv_heads, head_dim: H, K, D.
        scale: multiplies the scores.
        window: how many keys a query sees; None for all before it.
        rope: rotary positions; None where there are none.
        rotated: how many dimensions of a head are rotated.
        turn: which pairs turn together.
        backwards: they turn the other way.
        ahead: so many positions are the keys ahead of the queries.
        turned: which of q, k and v are rotated.
        norms: what normalises the heads of q and of k, none for neither.
        norms_last: after the rotation.
        share: how key/value heads serve several query heads.
        cap: scores are bent towards ± this.
        sees: which keys are hidden: (queries (T, 1), keys (1, T), window).
        weigh: scores (B, H, T, T) and what is hidden → weights.
        number_by_number: heads are put together number by number.
    """

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    window: int | None
    rope: Rope | None
    rotated: int
    turn: Callable[[Array, Array, Array], Array] = halves
    backwards: bool = False
    ahead: int = 0
    turned: str = "qk"
    norms: tuple[Callable[[Array], Array], ...] = ()
    norms_last: bool = False
    share: Callable[[Array, int], Array] = repeated
    cap: float | None = None
    sees: Callable[[Array, Array, int | None], Array] = causal
    weigh: Callable[[Array, Array], Array] = masked
    number_by_number: bool = False

    def __call__(self, q: Array, k: Array, v: Array) -> Array:
        """(B, T, H·D), twice (B, T, K·D) → (B, T, H·D)."""
        q, k, v = (x.reshape((*x.shape[:2], -1, self.head_dim)) for x in (q, k, v))
        steps = (self._normed, self._positioned)
        for step in reversed(steps) if self.norms_last else steps:
            q, k, v = step(q, k, v)
        k, v = (self.share(x, self.heads // self.kv_heads) for x in (k, v))
        scores = np.einsum("bthd,bshd->bhts", q, k, optimize=True) * self.scale
        scores = scores if self.cap is None else self.cap * np.tanh(scores / self.cap)
        tokens = np.arange(q.shape[1])
        weights = self.weigh(scores, self.sees(tokens[:, None], tokens[None], self.window))
        out = np.einsum("bhts,bshd->bthd", weights, v, optimize=True)
        return (out.swapaxes(2, 3) if self.number_by_number else out).reshape((*out.shape[:2], -1))

    def _normed(self, q: Array, k: Array, v: Array) -> tuple[Array, ...]:
        return (self.norms[0](q), self.norms[1](k), v) if self.norms else (q, k, v)

    def _positioned(self, q: Array, k: Array, v: Array) -> tuple[Array, ...]:
        if self.rope is None:
            return q, k, v
        parts = {"q": q, "k": k, "v": v}
        return tuple(self._turned(x, name) if name in self.turned else x for name, x in parts.items())

    def _turned(self, x: Array, name: str) -> Array:
        from mindport.model.rope import inverse_frequencies

        tokens = x.shape[1]
        inv_freq, length = inverse_frequencies(self.rope, self.rotated, tokens)
        positions = np.arange(tokens, dtype=np.float32) + np.float32(self.ahead * (name == "k"))
        angles = (positions[:, None] * inv_freq).astype(np.float64)[:, None]  # (T, 1, R/2); float32, as both sides do
        cos, sin = np.cos(angles) * length, np.sin(angles) * (-length if self.backwards else length)
        turned = self.turn(x[..., : self.rotated], cos, sin)
        return np.concatenate((turned, x[..., self.rotated :]), -1)


def attending(config: ModelConfig, layer: int, norms: tuple[Any, ...] = ()) -> Attending:
    """How a layer of this model should attend."""
    scale = config.head_dim**-0.5 if config.scale_attn_weights else 1.0
    return Attending(
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        scale=scale / (layer + 1) if config.scale_attn_by_inverse_layer_idx else scale,
        window=config.window[layer] if config.window else None,
        rope=config.rope,
        rotated=config.rotated,
        norms=norms,
    )
