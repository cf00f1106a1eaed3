"""Fused projections: exact inverses for any heads, and the order of rows said once more, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.weights.layouts import GroupedQKV, Interleave

SIZE = st.integers(1, 5)


@given(groups=SIZE, repeat=SIZE, head=SIZE, width=st.none() | SIZE)
def test_grouped_qkv_and_its_inverse(groups: int, repeat: int, head: int, width: int | None) -> None:
    rest = () if width is None else (width,)
    shapes = [(groups * repeat * head, *rest), (groups * head, *rest), (groups * head, *rest)]
    parts = [np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(shapes)]
    layout = GroupedQKV(groups)
    fused = layout.to_foreign(parts)
    assert fused.shape == layout.foreign_shape(shapes)
    back = layout.to_hub(fused, shapes)
    assert all(np.array_equal(a, b) and b.flags.c_contiguous for a, b in zip(parts, back, strict=True))
    # the same order, row by row: no reshape in common with the code
    q, k, v = parts
    rows = []
    for group in range(groups):
        rows += [q[h * head + i] for h in range(group * repeat, (group + 1) * repeat) for i in range(head)]
        rows += [k[group * head + i] for i in range(head)] + [v[group * head + i] for i in range(head)]
    assert np.array_equal(fused, np.array(rows))


@pytest.mark.parametrize("rest", [(), (1,)])
def test_the_order_of_heads_by_name(rest: tuple[int, ...]) -> None:
    """Four query heads of one row, two key/value heads: weights and biases alike."""
    q, k, v = (np.array(x).reshape(-1, *rest) for x in ([0, 1, 2, 3], [10, 11], [20, 21]))
    assert GroupedQKV(2).to_foreign([q, k, v]).ravel().tolist() == [0, 1, 10, 20, 2, 3, 11, 21]
    assert GroupedQKV(1).to_foreign([q, k, v]).ravel().tolist() != [0, 1, 10, 20, 2, 3, 11, 21]


@given(rows=SIZE, width=st.none() | SIZE, count=st.integers(2, 3))
def test_interleave_and_its_inverse(rows: int, width: int | None, count: int) -> None:
    shape = (rows,) if width is None else (rows, width)
    parts = [np.random.default_rng(i).standard_normal(shape) for i in range(count)]
    layout = Interleave()
    fused = layout.to_foreign(parts)
    assert fused.shape == layout.foreign_shape([shape] * count)
    assert all(np.array_equal(fused[i * count + j], parts[j][i]) for i in range(rows) for j in range(count))
    back = layout.to_hub(fused, [shape] * count)
    assert all(np.array_equal(a, b) and b.flags.c_contiguous for a, b in zip(parts, back, strict=True))
