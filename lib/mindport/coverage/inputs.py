"""The arrays that the table's expressions name, and what reads the same in both languages."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def inputs() -> dict[str, Array]:
    """Name → array, made anew: an operator may write into it. Floats are float32, integers int64."""
    rng = np.random.default_rng(0)
    normal = {
        "x": (2, 3, 4), "y": (2, 3, 4),  # (B, T, D)
        "q": (2, 2, 3, 4), "k": (2, 2, 3, 4), "v": (2, 2, 3, 4),  # (B, H, T, D)
        "a": (3, 4), "c": (4, 5), "sq": (2, 3, 3), "tri": (5, 4, 4),
        "w": (5, 4), "b": (5,), "h": (4,), "e": (7, 4),  # a weight [out, in], biases, an embedding
        "t": (2, 4, 6), "image": (2, 4, 6, 6), "conv1": (5, 4, 3), "conv2": (5, 4, 3, 3),  # (N, C, L), (N, C, H, W)
        "z": (6, 5), "fused": (3, 4, 12), "qkv": (12, 4), "qkv_bias": (12,),
    }  # fmt: skip
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in normal.items()}
    arrays |= {
        "p": rng.uniform(0.5, 2.0, (2, 3, 4)).astype(np.float32),
        "u": rng.uniform(0.1, 0.9, (2, 3, 4)).astype(np.float32),
        "g": rng.uniform(0.5, 1.5, (4,)).astype(np.float32),
        "s": (np.eye(4) * 3 + rng.standard_normal((4, 4))).astype(np.float32),  # far from singular
        "big": np.ones((100, 100), np.float32),
        "one_way": np.eye(7, dtype=np.float32)[[4, 0, 6]],
        "ordered": np.linspace(-1, 1, 5, dtype=np.float32),
    }
    return arrays | {
        "i": rng.integers(0, 7, (2, 3)),
        "j": rng.integers(0, 4, (2, 3, 2)),
        "l": np.array([0, 4, -100, 2, 1, 3]),
        "distinct": np.array([5, 0, 2]),
        "m": rng.random((2, 3, 4)) < 0.4,
        "causal": np.triu(np.ones((3, 3), bool), 1),
    }


def weight(name: str, shape: tuple[int, ...]) -> Array:
    """A parameter's value, by its name: the same in both frameworks; MindSpore's own words are put into torch's."""
    for ours, theirs in (("gamma", "weight"), ("beta", "bias"), ("embedding_table", "weight"), ("dense", "linear")):
        name = name.replace(ours, theirs)
    size = int(np.prod(shape))
    phase = sum(map(ord, name))
    return (0.4 * np.cos(1.7 * np.arange(size) + phase) + 0.1).astype(np.float32).reshape(shape)


def cotangent(shape: tuple[int, ...]) -> Array:
    """What an output is multiplied with before it is summed and differentiated."""
    return np.cos(1.0 + np.arange(int(np.prod(shape)))).astype(np.float32).reshape(shape)


def put(x: Any, value: float) -> Any:
    """A tensor with an assignment to an index; the one that was given stays as it is."""
    x = 1 * x
    x[:, 1] = value
    return x


def square_sum(x: Any) -> Any:
    """A scalar of a tensor."""
    return (x * x).sum()
