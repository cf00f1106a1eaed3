"""Projections that another program keeps in one matrix; each layout serves weights [rows, in] and biases [rows] alike.

grouped_qkv   for each key/value head: its query heads, the key, the value   q0 q1 k0 v0 │ q2 q3 k1 v1
interleave    rows in turn                                                   g0 u0 g1 u1 …
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mindport.config import ModelConfig
from mindport.weights.layouts import LAYOUTS, Layout, Shape


@dataclass(frozen=True)
class GroupedQKV:
    """q, k, v ↔ one tensor in `groups` equal blocks of rows, a block for each key/value head (Megatron's order)."""

    groups: int
    name = "grouped_qkv"

    def foreign_shape(self, hub_shapes: Sequence[Shape]) -> Shape:
        return (sum(shape[0] for shape in hub_shapes), *hub_shapes[0][1:])

    def to_hub(self, x: np.ndarray, hub_shapes: Sequence[Shape]) -> list[np.ndarray]:
        ends = np.cumsum([shape[0] // self.groups for shape in hub_shapes])
        blocks = x.reshape(self.groups, -1, *x.shape[1:])  # (G, (q + k + v) / G, in)
        parts = np.split(blocks, ends[:-1], axis=1)
        return [np.ascontiguousarray(part).reshape(shape) for part, shape in zip(parts, hub_shapes, strict=True)]

    def to_foreign(self, xs: Sequence[np.ndarray]) -> np.ndarray:
        blocks = [x.reshape(self.groups, -1, *x.shape[1:]) for x in xs]  # each (G, rows / G, in)
        return np.concatenate(blocks, axis=1).reshape(-1, *xs[0].shape[1:])


class Interleave:
    """Several tensors of one shape ↔ one tensor that takes a row of each in turn."""

    name = "interleave"

    def foreign_shape(self, hub_shapes: Sequence[Shape]) -> Shape:
        return (sum(shape[0] for shape in hub_shapes), *hub_shapes[0][1:])

    def to_hub(self, x: np.ndarray, hub_shapes: Sequence[Shape]) -> list[np.ndarray]:
        return [np.ascontiguousarray(x[i :: len(hub_shapes)]) for i in range(len(hub_shapes))]

    def to_foreign(self, xs: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(xs, axis=1).reshape(-1, *xs[0].shape[1:])  # (rows, 2, in) → (2 · rows, in)


AnyLayout = Layout | GroupedQKV | Interleave
FUSED: dict[str, Callable[[ModelConfig], AnyLayout]] = {
    "grouped_qkv": lambda config: GroupedQKV(config.num_key_value_heads),
    "interleave": lambda config: Interleave(),
}


def layout_for(name: str, config: ModelConfig) -> AnyLayout:
    """The layout of a row's name; some depend on the model's heads."""
    return FUSED[name](config) if name in FUSED else LAYOUTS[name]
