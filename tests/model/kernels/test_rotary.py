"""Rotary positions, in C++ and by plain operators, against float64; the gradient turns back."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore import Tensor, nn

from mindport.model import kernels
from mindport.model.kernels import choices, override
from tests.model.kernels import cases
from tests.model.kernels.cases import normal
from tests.model.kernels.exactness import assert_holds, used
from tests.model.kernels.planted import OTHER_CPUS, planted
from tests.model.reference import MODES

PATHS = ("cpu", "reference")
# batch, tokens, heads, head_dim, rotary_dim, sequences of cos
SHAPES = ((1, 1, 1, 8, 8, 1), (2, 7, 3, 24, 24, 2), (2, 65, 1, 80, 32, 1), (1, 1000, 2, 8, 4, 1),
          (3, 5, 4, 128, 128, 3), (2, 3, 2, 256, 100, 2), (1, 9, 2, 64, 64, 1))  # fmt: skip


def made(head_dim: int, rotary_dim: int, path: str = "cpu") -> nn.Cell:
    with override("rope", path):
        return kernels.rope(head_dim=head_dim, rotary_dim=rotary_dim)


def case(b: int, t: int, h: int, d: int, r: int, sequences: int) -> tuple:
    """The formula, x, cos and sin of different angles in each sequence, and one gradient."""
    angles = normal(sequences, t, r // 2, scale=3)
    return cases.rope, (normal(b, t, h, d), np.cos(angles), np.sin(angles)), 1


def test_a_cpu_with_a_compiler_takes_cpp(compiler):
    kernels.rope(head_dim=8)
    assert ("rope", "cpu") in {(choice.kernel, choice.path) for choice in choices()}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradient(shape, path):
    assert_holds(made(*shape[3:5], path), *case(*shape))


@pytest.mark.parametrize("mode", MODES)
def test_recomputed(mode):
    kernel = made(24, 12)
    kernel.recompute()
    assert_holds(kernel, *case(2, 7, 3, 24, 12, 1), MODES[mode])


def test_graph_mode():
    assert_holds(made(24, 24), *case(2, 7, 3, 24, 24, 2), ms.GRAPH_MODE)


@pytest.mark.parametrize("mode", MODES)
def test_cos_and_sin_are_constants(mode):
    _, inputs, _ = case(2, 7, 3, 24, 24, 1)
    kernel = made(24, 24)
    for gradient in ms.grad(lambda *x: kernel(*x).sum(), (1, 2))(*map(Tensor, inputs)):
        np.testing.assert_array_equal(gradient.asnumpy(), np.zeros((1, 7, 12), np.float32))


@pytest.mark.parametrize("compiler", OTHER_CPUS)
def test_on_narrower_vectors(compiler):
    with planted("rotary.cc", compiler=compiler):
        for shape in SHAPES[1:3]:
            assert_holds(made(*shape[3:5]), *case(*shape))


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("right * c + left * s", "right * c - left * s", 0),
        ("memcpy(y + 2 * half, x + 2 * half", "memcpy(y + 2 * half, x", 0),
        ("token % angles", "0", 0),
        ("BACK ? -lanes.get(sin + i) : lanes.get(sin + i)", "lanes.get(sin + i)", 1),
    ],
)
def test_a_planted_fault_is_seen(old, new, part):
    """In the value (part 0) or in the gradient (1)."""
    with planted("rotary.cc", old, new):
        assert used(made(24, 12), *case(2, 7, 3, 24, 12, 2))[part] > 2


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 5), st.integers(1, 70), st.integers(0, 20), st.booleans())
def test_any_shape(b, t, h, half, rest, own):
    d = 2 * half + rest
    assert_holds(made(d, 2 * half), *case(b, t, h, d, 2 * half, b if own else 1))
