"""Inputs at awkward sizes, and the formulas of the kernels in float64 with torch's gradients."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch.nn import functional as F

from mindport.model import kernels

B, H, K, T, S, D, N, V = 2, 6, 2, 5, 9, 8, 7, 11


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed + sum(shape)).standard_normal(shape) * scale).astype(np.float32)


def angles(function, tokens: int = T) -> np.ndarray:
    return function(np.arange(tokens)[:, None] * 0.7 ** np.arange(D // 2))[None].astype(np.float32)


def attention(q, k, v, scale=0.37, offset=None, window=None, lengths=None, dropped=None):
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    t, s = q.shape[2], k.shape[2]
    last = torch.arange(t)[:, None] + (s - t if offset is None else offset)
    hidden = (torch.arange(s) > last) | (torch.arange(s) <= last - window if window else last < 0)
    if lengths is not None:
        hidden = hidden | (last >= torch.as_tensor(lengths).reshape(-1, 1, 1, 1))
    weights = (q @ k.mT * scale).masked_fill(hidden, -1e300).softmax(-1).masked_fill(hidden, 0)
    weights = weights if dropped is None else weights * torch.from_numpy(dropped).reshape(weights.shape)
    return (weights @ v).transpose(1, 2)


def rms_norm(x, weight, eps=1e-3, offset=0):
    return (offset + weight) * x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def layer_norm(x, weight, bias, eps=1e-3):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rope(x, cos, sin):
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    left, right, rest = x.split((cos.shape[-1], cos.shape[-1], x.shape[-1] - 2 * cos.shape[-1]), -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin, rest), -1)


def make_attention(kv_heads: int = K, **changes):
    settings = {"heads": H, "kv_heads": kv_heads, "head_dim": D, "scale": 0.37, "dropout": 0.0, "dtype": "float32"}
    return kernels.attention(**{**settings, **changes})


WIDE = np.linspace(-11, 11, 400, dtype=np.float32)  # through every bend of an activation


def qkv(tokens: int = T, keys: int = T, kv_heads: int = K) -> tuple[np.ndarray, ...]:
    return normal(B, tokens, H, D), normal(B, keys, kv_heads, D, seed=1), normal(B, keys, kv_heads, D, seed=2)


def layer_norm_inputs(scale: float = 1.0) -> tuple[np.ndarray, ...]:
    return normal(B, T, N, scale=scale), 1 + normal(N), normal(N, seed=3)


def make_rms_norm():
    return kernels.rms_norm(eps=1e-3)


def make_layer_norm():
    return kernels.layer_norm(eps=1e-3)


LABELS = np.array([3, 0, -100, 10, 5, -100, 1], np.int32)

# name → (how our kernel is made, the formula, inputs, how many of them have a gradient)
CASES = {
    "attention": (make_attention, attention, qkv(), 3),
    "attention one kv head": (lambda: make_attention(1), attention, qkv(kv_heads=1), 3),
    "attention one token": (make_attention, attention, qkv(1, 1), 3),
    "attention after a cache": (make_attention, attention, qkv(keys=S), 3),
    "attention in a window": (lambda: make_attention(window=2), partial(attention, window=2), qkv(), 3),
    "attention in a window after a cache": (
        lambda: make_attention(window=3),
        partial(attention, window=3),
        qkv(T, S),
        3,
    ),
    "rms_norm": (make_rms_norm, rms_norm, layer_norm_inputs()[:2], 2),
    "rms_norm around zero": (
        lambda: kernels.rms_norm(eps=1e-3, offset=1),
        lambda x, w: rms_norm(x, w, offset=1),
        layer_norm_inputs()[:2],
        2,
    ),
    "rms_norm small": (make_rms_norm, rms_norm, layer_norm_inputs(0.02)[:2], 2),
    "layer_norm": (make_layer_norm, layer_norm, layer_norm_inputs(), 3),
    "layer_norm small": (make_layer_norm, layer_norm, layer_norm_inputs(0.02), 3),
    "rope of a part": (
        lambda: kernels.rope(head_dim=D, rotary_dim=D - 2),
        rope,
        (normal(B, T, H, D), angles(np.cos)[..., 1:], angles(np.sin)[..., 1:]),
        1,
    ),
    "rope": (lambda: kernels.rope(head_dim=D), rope, (normal(B, T, H, D), angles(np.cos), angles(np.sin)), 1),
    "gelu erf": (lambda: kernels.gelu(approximate=False), F.gelu, (WIDE,), 1),
    "gelu tanh": (lambda: kernels.gelu(approximate=True), lambda x: F.gelu(x, approximate="tanh"), (WIDE,), 1),
    "silu": (lambda: kernels.activation("silu"), F.silu, (WIDE,), 1),
    "relu": (lambda: kernels.activation("relu"), F.relu, (WIDE,), 1),
    "swiglu": (kernels.swiglu, lambda g, u: F.silu(g) * u, (WIDE, normal(400)), 2),
    "gated gelu": (lambda: kernels.gated("gelu"), lambda g, u: F.gelu(g) * u, (WIDE, normal(400)), 2),
    "cross_entropy": (kernels.cross_entropy, F.cross_entropy, (normal(N, V, scale=9), LABELS), 1),
}
