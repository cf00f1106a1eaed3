"""Layouts: exact inverses of each other, contiguous, and what they claim by value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.weights.layouts import LAYOUTS, GroupedQKV, Interleave, Same, SplitQKV, Stack, Transpose

SIZE = st.integers(1, 7)
CASES = {  # layout, and the rows of its parts in units that it can divide
    "same": (Same(), (1,)),
    "transpose": (Transpose(), (1,)),
    "split_qkv": (SplitQKV(), (3, 1, 1)),
    "stack": (Stack(), (3, 2)),
    "grouped_qkv": (GroupedQKV(2), (2, 2, 2)),
    "grouped_qkv with shared keys": (GroupedQKV(2), (6, 2, 2)),
    "interleave": (Interleave(), (1, 1)),
}


@pytest.mark.parametrize("name", CASES)
@given(size=SIZE, width=st.none() | SIZE)
def test_to_hub_undoes_to_foreign(name: str, size: int, width: int | None) -> None:
    layout, units = CASES[name]
    random = np.random.default_rng(size)
    parts = [random.standard_normal((unit * size,) if width is None else (unit * size, width)) for unit in units]
    shapes = [part.shape for part in parts]
    foreign = layout.to_foreign(parts)
    back = layout.to_hub(foreign, shapes)
    assert foreign.shape == layout.foreign_shape(shapes)
    assert all(np.array_equal(a, b) for a, b in zip(parts, back, strict=True))
    assert all(x.flags.c_contiguous for x in (foreign, *back))


def test_every_layout_has_a_case() -> None:
    assert {layout.name for layout, _ in CASES.values()} == LAYOUTS.keys()


def test_a_conv1d_computes_what_the_linear_map_computes() -> None:
    random = np.random.default_rng(1)
    x, square = random.standard_normal((5, 8)), random.standard_normal((8, 8))  # square: no shape shows a mistake
    (weight,) = Transpose().to_hub(square, [(8, 8)])
    np.testing.assert_allclose(x @ square, x @ weight.T)
    assert not np.allclose(x @ square, x @ square.T)


def test_fused_qkv_splits_into_q_then_k_then_v() -> None:
    fused = np.arange(2 * 9).reshape(2, 9)
    q, k, v = SplitQKV().to_hub(fused, [(4, 2), (3, 2), (2, 2)])
    assert (q[:, 0].tolist(), k[:, 0].tolist(), v[:, 0].tolist()) == ([0, 1, 2, 3], [4, 5, 6], [7, 8])


def test_stacked_rows_split_in_order() -> None:
    q, k = Stack().to_hub(np.arange(5), [(3,), (2,)])
    assert (q.tolist(), k.tolist()) == ([0, 1, 2], [3, 4])


def test_grouped_rows_split_head_by_head() -> None:
    q, k, v = GroupedQKV(2).to_hub(np.arange(16), [(8,), (4,), (4,)])  # two groups of two query heads, width 2
    assert q.tolist() == [0, 1, 2, 3, 8, 9, 10, 11]
    assert (k.tolist(), v.tolist()) == ([4, 5, 12, 13], [6, 7, 14, 15])
