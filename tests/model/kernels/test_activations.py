"""GELU by erf and by tanh, SiLU, and each times the other half, in C++ and by plain operators, against float64."""

from __future__ import annotations

from functools import partial

import mindspore as ms
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from mindspore import Tensor, nn
from torch.nn import functional as F

from mindport.model import kernels
from mindport.model.kernels import choices, override
from tests.model.kernels.cases import normal
from tests.model.kernels.exactness import assert_holds, used
from tests.model.kernels.planted import OTHER_CPUS, planted
from tests.model.reference import MODES

PATHS = ("cpu", "reference")
SHAPES = ((1,), (7,), (2, 3, 5), (65,), (1000,), (3, 20_000))
tanh = partial(F.gelu, approximate="tanh")

# name → (kernel, how it is made, its formula, arrays that it takes)
ACTIVATIONS = {
    "silu": ("silu", lambda: kernels.activation("silu"), F.silu, 1),
    "gelu erf": ("gelu", lambda: kernels.activation("gelu"), F.gelu, 1),
    "gelu tanh": ("gelu", lambda: kernels.activation("gelu_tanh"), tanh, 1),
    "swiglu": ("swiglu", lambda: kernels.gated("silu"), lambda gate, up: F.silu(gate) * up, 2),
    "geglu erf": ("geglu", lambda: kernels.gated("gelu"), lambda gate, up: F.gelu(gate) * up, 2),
    "geglu tanh": ("geglu", lambda: kernels.gated("gelu_tanh"), lambda gate, up: tanh(gate) * up, 2),
}


def made(name: str, path: str = "cpu") -> nn.Cell:
    kernel, make, _, _ = ACTIVATIONS[name]
    with override(kernel, path), override("gelu", path):  # by plain operators, geglu is gelu and a product
        return make()


def case(name: str, x: np.ndarray) -> tuple:
    _, _, formula, count = ACTIVATIONS[name]
    return formula, (x, normal(*x.shape, seed=1))[:count], count


def test_a_cpu_with_a_compiler_takes_cpp(compiler):
    for name in ACTIVATIONS:
        ACTIVATIONS[name][1]()
    chosen = {(choice.kernel, choice.path) for choice in choices()}
    assert {("silu", "cpu"), ("gelu", "cpu"), ("swiglu", "cpu"), ("geglu", "cpu")} <= chosen


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_through_every_bend(name, path):
    """20 is beyond all of them; there the limits are of what is largest, so a second look is near zero."""
    for reach in (20, 4):
        assert_holds(made(name, path), *case(name, np.linspace(-reach, reach, 20_001, dtype=np.float32)))


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradients(shape, name):
    assert_holds(made(name), *case(name, normal(*shape, scale=3)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_recomputed(name, mode):
    kernel = made(name)
    kernel.recompute()
    assert_holds(kernel, *case(name, normal(7, 65)), MODES[mode])


@pytest.mark.parametrize("name", ["gelu erf", "swiglu"])
def test_graph_mode(name):
    assert_holds(made(name), *case(name, normal(7, 65)), ms.GRAPH_MODE)


@pytest.mark.parametrize("name", ["silu", "gelu erf", "gelu tanh"])
def test_small_tails_keep_their_digits(name):
    """To the left of zero an activation fades out; it stays right relative to itself, until it is as small as 1e-9."""
    x = np.linspace(-5.5, -0.1, 1001, dtype=np.float32)
    expected = ACTIVATIONS[name][2](torch.from_numpy(x).double()).numpy()
    np.testing.assert_allclose(made(name)(Tensor(x)).asnumpy(), expected, rtol=3e-6)


@pytest.mark.parametrize("name", ["silu", "gelu erf", "gelu tanh"])
def test_far_out_it_is_zero_or_x_and_nan_stays(name):
    got = made(name)(Tensor(np.array([-1e4, -100, 100, 1e4, np.nan], np.float32))).asnumpy()
    np.testing.assert_allclose(got, [0, 0, 100, 1e4, np.nan], atol=1e-30)


@pytest.mark.parametrize("name", ["silu", "gelu erf", "gelu tanh"])
def test_as_far_as_floats_go_nothing_is_left(name):
    x = Tensor(np.array([-3e38, -1e30, -1e18, -1e13], np.float32))
    assert (made(name)(x).asnumpy() == 0).all()
    assert (ms.grad(made(name))(x[2:]).asnumpy() == 0).all()  # beyond, the slope of tanh's cube is no float


@pytest.mark.parametrize("compiler", OTHER_CPUS)
def test_on_narrower_vectors(compiler):
    with planted("activation.cc", compiler=compiler):
        for name in ACTIVATIONS:
            assert_holds(made(name), *case(name, np.linspace(-9, 9, 1001, dtype=np.float32)))


@pytest.mark.parametrize(
    ("name", "old", "new", "part"),
    [
        ("gelu erf", "p * t - 0.1572034953f", "p * t - 0.1582034953f", 0),
        ("gelu tanh", "cubic = 0.0713548163f", "cubic = 0.0714548163f", 0),
        ("geglu tanh", "3.f * cubic", "2.99f * cubic", 1),
        ("swiglu", "s + y * (1.f - s)};", "s + y * (1.f - 0.9999f * s)};", 1),
        ("swiglu", "lanes.put(dup + i, out * act.value)", "lanes.put(dup + i, out * act.slope)", 1),
        ("geglu erf", "bell * 0.3989422804f", "bell * 0.39899f", 1),
    ],
)
def test_a_planted_fault_is_seen(name, old, new, part):
    """In the value (part 0) or in a gradient (1)."""
    with planted("activation.cc", old, new):
        assert used(made(name), *case(name, normal(1000, scale=3)))[part] > 2


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(sorted(ACTIVATIONS)),
    arrays.arrays(np.float32, st.integers(1, 150), elements=st.floats(-30, 30, width=32)),
)
def test_any_values(name, x):
    assert_holds(made(name), *case(name, x))
