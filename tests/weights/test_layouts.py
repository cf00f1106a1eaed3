"""Layouts: exact inverses of each other, contiguous, and what they claim by value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.weights.layouts import LAYOUTS

SIZE = st.integers(1, 7)


def _parts(name: str, sizes: list[int], width: int | None) -> list[np.ndarray]:
    random = np.random.default_rng(sum(sizes))
    count = 3 if name == "split_qkv" else 1
    return [random.standard_normal((size,) if width is None else (size, width)) for size in sizes[:count]]


@pytest.mark.parametrize("name", LAYOUTS)
@given(sizes=st.lists(SIZE, min_size=3, max_size=3), width=st.none() | SIZE)
def test_to_hub_undoes_to_foreign(name: str, sizes: list[int], width: int | None) -> None:
    layout, parts = LAYOUTS[name], _parts(name, sizes, width)
    shapes = [part.shape for part in parts]
    foreign = layout.to_foreign(parts)
    back = layout.to_hub(foreign, shapes)
    assert foreign.shape == layout.foreign_shape(shapes)
    assert all(np.array_equal(a, b) for a, b in zip(parts, back, strict=True))
    assert all(x.flags.c_contiguous for x in (foreign, *back))


def test_a_conv1d_computes_what_the_linear_map_computes() -> None:
    random = np.random.default_rng(1)
    x, square = random.standard_normal((5, 8)), random.standard_normal((8, 8))  # square: no shape shows a mistake
    (weight,) = LAYOUTS["transpose"].to_hub(square, [(8, 8)])
    np.testing.assert_allclose(x @ square, x @ weight.T)
    assert not np.allclose(x @ square, x @ square.T)


def test_fused_qkv_splits_into_q_then_k_then_v() -> None:
    fused = np.arange(2 * 9).reshape(2, 9)
    q, k, v = LAYOUTS["split_qkv"].to_hub(fused, [(4, 2), (3, 2), (2, 2)])
    assert (q[:, 0].tolist(), k[:, 0].tolist(), v[:, 0].tolist()) == ([0, 1, 2, 3], [4, 5, 6], [7, 8])
