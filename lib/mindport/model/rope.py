"""Inverse frequencies of rotary positions, and how each scaling type bends them.

    angle(position p, pair i) = p · inverse_frequency[i],   default: inverse_frequency[i] = theta^(-2i / D)

| type    | for a longer context                                                                   |
|---------|----------------------------------------------------------------------------------------|
| linear  | every frequency is divided by `factor`                                                 |
| dynamic | theta grows with the sequence once it passes the original context (NTK)                |
| yarn    | slow pairs are divided, fast pairs kept, a ramp between; cos and sin are scaled        |
| llama3  | as yarn with the ramp in wavelengths; cos and sin are not scaled                       |
| longrope| each pair has a divisor of its own, another one beyond the original context            |

NumPy only, in float32 where the reference is (`modeling_rope_utils.py` of transformers 5); the tests hold every
type to it. Papers: RoFormer arXiv:2104.09864, YaRN arXiv:2309.00071.
"""

from __future__ import annotations

import math

import numpy as np

from mindport.config.model_config import Rope


def inverse_frequencies(rope: Rope, head_dim: int, seq_len: int) -> tuple[np.ndarray, float]:
    """Radians per position for each pair of dimensions.

    Args:
        rope: base and scaling.
        head_dim: D, even.
        seq_len: positions in the sequence; `dynamic` and `longrope` depend on it, beyond the original context.

    Returns:
        Inverse frequencies, float32 (D/2,), and the factor that multiplies cos and sin.
    """
    return _TYPES[rope.rope_type](rope, head_dim, seq_len)


def _default(rope: Rope, head_dim: int, seq_len: int) -> tuple[np.ndarray, float]:
    return 1 / _periods(rope.rope_theta, head_dim), 1.0


def _linear(rope: Rope, head_dim: int, seq_len: int) -> tuple[np.ndarray, float]:
    return 1 / _periods(rope.rope_theta, head_dim) / np.float32(rope.factor), 1.0


def _dynamic(rope: Rope, head_dim: int, seq_len: int) -> tuple[np.ndarray, float]:
    context = rope.original_max_position_embeddings
    stretch = rope.factor * max(seq_len, context) / context - (rope.factor - 1)
    theta = rope.rope_theta * stretch ** (head_dim / (head_dim - 2))
    return 1 / _periods(theta, head_dim), 1.0


def _yarn(rope: Rope, head_dim: int, seq_len: int) -> tuple[np.ndarray, float]:
    periods = _periods(rope.rope_theta, head_dim)
    low, high = _yarn_band(rope, head_dim)
    divided = _ramp(low, high, head_dim // 2)  # 0: kept, 1: divided by the factor
    inv_freq = 1 / (np.float32(rope.factor) * periods) * divided + 1 / periods * (1 - divided)
    return inv_freq, _yarn_attention_factor(rope)


def _llama3(rope: Rope, head_dim: int, seq_len: int) -> tuple[np.ndarray, float]:
    inv_freq = 1 / _periods(rope.rope_theta, head_dim)
    turns = rope.original_max_position_embeddings * inv_freq / np.float32(2 * math.pi)  # in the original context
    kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = np.clip(kept, 0, 1).astype(np.float32)  # 0: divided by the factor, 1: kept
    return (1 - kept) * inv_freq / np.float32(rope.factor) + kept * inv_freq, 1.0


def _longrope(rope: Rope, head_dim: int, seq_len: int) -> tuple[np.ndarray, float]:
    context = rope.original_max_position_embeddings
    divisors = np.array(rope.long_factor if seq_len > context else rope.short_factor, np.float32)
    scaling = rope.attention_factor
    if scaling is None:
        scaling = math.sqrt(1 + math.log(rope.factor) / math.log(context)) if rope.factor > 1 else 1.0
    return 1 / (divisors * _periods(rope.rope_theta, head_dim)), scaling


_TYPES = {"default": _default, "linear": _linear, "dynamic": _dynamic, "yarn": _yarn, "llama3": _llama3,
          "longrope": _longrope}  # fmt: skip


def _periods(theta: float, head_dim: int) -> np.ndarray:
    """Positions per radian, float32 (D/2,)."""
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    return np.power(np.float32(theta), exponents)


def _yarn_band(rope: Rope, head_dim: int) -> tuple[float, float]:
    """The pairs between which the ramp runs: those with `beta_fast` and `beta_slow` turns in the context."""

    def pair_with(turns: float) -> float:
        positions_per_radian = rope.original_max_position_embeddings / (turns * 2 * math.pi)
        return head_dim * math.log(positions_per_radian) / (2 * math.log(rope.rope_theta))

    low, high = pair_with(rope.beta_fast or 32), pair_with(rope.beta_slow or 1)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, head_dim - 1)


def _ramp(low: float, high: float, pairs: int) -> np.ndarray:
    """0 up to `low`, 1 from `high`, straight between; float32 (pairs,)."""
    width = high - low or 0.001  # the reference's guard against a band of no width
    return np.clip((np.arange(pairs, dtype=np.float32) - np.float32(low)) / np.float32(width), 0, 1)


def _yarn_attention_factor(rope: Rope) -> float:
    """YaRN's temperature, applied to cos and sin: given, or from the factor (equation 22 of the paper)."""
    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.mscale and rope.mscale_all_dim:
        return _mscale(rope.factor, rope.mscale) / _mscale(rope.factor, rope.mscale_all_dim)
    return _mscale(rope.factor, 1.0)


def _mscale(factor: float, weight: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0
