"""How the same numbers lie in a foreign tensor and in the hub: both directions, as pure functions over NumPy arrays.

The hub keeps linear weights [out, in], one matrix for each map. What comes out is always contiguous: a writer that
trusts the memory of a transposed view writes wrong bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mindport.config import ModelConfig

Shape = tuple[int, ...]


class Same:
    """One tensor, as it is."""

    name = "same"

    def foreign_shape(self, hub_shapes: Sequence[Shape]) -> Shape:
        """The shape of the foreign tensor that holds tensors of these shapes."""
        (shape,) = hub_shapes
        return shape

    def to_hub(self, x: np.ndarray, hub_shapes: Sequence[Shape]) -> list[np.ndarray]:
        """The hub's tensors in the foreign one."""
        return [x]

    def to_foreign(self, xs: Sequence[np.ndarray]) -> np.ndarray:
        """The foreign tensor that holds the hub's; undoes `to_hub`."""
        (x,) = xs
        return x


class Transpose(Same):
    """[in, out] ↔ [out, in]: GPT-2's Conv1D computes x @ W, a linear map computes x @ Wᵀ."""

    name = "transpose"

    def foreign_shape(self, hub_shapes: Sequence[Shape]) -> Shape:
        (shape,) = hub_shapes
        return shape[::-1]

    def to_hub(self, x: np.ndarray, hub_shapes: Sequence[Shape]) -> list[np.ndarray]:
        return [np.ascontiguousarray(x.T)]

    def to_foreign(self, xs: Sequence[np.ndarray]) -> np.ndarray:
        (x,) = xs
        return np.ascontiguousarray(x.T)


class SplitQKV:
    """[in, q + k + v] ↔ q, k, v, each [out, in]; a bias [q + k + v] ↔ three vectors. GPT-2's c_attn."""

    name = "split_qkv"

    def foreign_shape(self, hub_shapes: Sequence[Shape]) -> Shape:
        return (*hub_shapes[0][1:], sum(shape[0] for shape in hub_shapes))

    def to_hub(self, x: np.ndarray, hub_shapes: Sequence[Shape]) -> list[np.ndarray]:
        ends = np.cumsum([shape[0] for shape in hub_shapes])
        return [np.ascontiguousarray(part.T) for part in np.split(x, ends[:-1], axis=-1)]  # (d, q+k+v) → 3 × (out, d)

    def to_foreign(self, xs: Sequence[np.ndarray]) -> np.ndarray:
        return np.ascontiguousarray(np.concatenate([x.T for x in xs], axis=-1))


class Stack:
    """[a + b + …, in] ↔ a, b, …, each [out, in]; a bias likewise. Phi-3's qkv_proj and gate_up_proj."""

    name = "stack"

    def foreign_shape(self, hub_shapes: Sequence[Shape]) -> Shape:
        return (sum(shape[0] for shape in hub_shapes), *hub_shapes[0][1:])

    def to_hub(self, x: np.ndarray, hub_shapes: Sequence[Shape]) -> list[np.ndarray]:
        ends = np.cumsum([shape[0] for shape in hub_shapes])
        return [np.ascontiguousarray(part) for part in np.split(x, ends[:-1])]

    def to_foreign(self, xs: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(xs)


class GroupedQKV(Stack):
    """Stacked head by head ↔ q, k, v: for each key/value head its query heads, then k, then v.

    GPT-NeoX's query_key_value, where each group has one query head: q0 k0 v0 q1 k1 v1 …

    Args:
        groups: number of key/value heads.
    """

    name = "grouped_qkv"

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def to_hub(self, x: np.ndarray, hub_shapes: Sequence[Shape]) -> list[np.ndarray]:
        heads = x.reshape((self.groups, -1, *x.shape[1:]))  # (groups, rows of a group, in)
        ends = np.cumsum([shape[0] // self.groups for shape in hub_shapes])
        parts = zip(np.split(heads, ends[:-1], axis=1), hub_shapes, strict=True)
        return [np.ascontiguousarray(part.reshape(shape)) for part, shape in parts]

    def to_foreign(self, xs: Sequence[np.ndarray]) -> np.ndarray:
        heads = [x.reshape((self.groups, -1, *x.shape[1:])) for x in xs]
        return np.concatenate(heads, axis=1).reshape((-1, *xs[0].shape[1:]))


class Interleave(Stack):
    """Tensors of one shape ↔ one that takes a row of each in turn, g0 u0 g1 u1 …: MindSpore Transformers' MLP."""

    name = "interleave"

    def to_hub(self, x: np.ndarray, hub_shapes: Sequence[Shape]) -> list[np.ndarray]:
        return [np.ascontiguousarray(x[i :: len(hub_shapes)]) for i in range(len(hub_shapes))]

    def to_foreign(self, xs: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(xs, axis=1).reshape((-1, *xs[0].shape[1:]))  # (rows, 2, in) → (2 · rows, in)


Layout = Same | SplitQKV | Stack
LAYOUTS: dict[str, Callable[[ModelConfig], Layout]] = {
    Same.name: lambda c: Same(),
    Transpose.name: lambda c: Transpose(),
    SplitQKV.name: lambda c: SplitQKV(),
    Stack.name: lambda c: Stack(),
    GroupedQKV.name: lambda c: GroupedQKV(c.num_key_value_heads),
    Interleave.name: lambda c: Interleave(),
}


def layout(name: str, config: ModelConfig) -> Layout:
    """The layout of that name, for a model of this configuration."""
    return LAYOUTS[name](config)
