"""Layer norm and RMS norm, in C++ and by plain operators, against float64."""

from __future__ import annotations

import ctypes

import mindspore as ms
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore import nn

from mindport.model import kernels
from mindport.model.kernels import choices, override
from mindport.model.kernels.library import library
from tests.model.kernels import cases
from tests.model.kernels.cases import normal
from tests.model.kernels.exactness import assert_holds, used
from tests.model.kernels.operators import call
from tests.model.kernels.planted import OTHER_CPUS, planted
from tests.model.reference import MODES, execution

EPS = 1e-3
PATHS = ("cpu", "reference")
SHAPES = ((1, 1), (1, 8), (7, 65), (2, 3, 5), (1000, 24), (3, 1000), (65, 80), (2, 5, 3, 64))

# name → (how it is made, its formula)
NORMS = {
    "rms": (lambda: kernels.rms_norm(eps=EPS), cases.rms_norm),
    "rms around zero": (lambda: kernels.rms_norm(eps=EPS, offset=1), lambda x, w: cases.rms_norm(x, w, offset=1)),
    "layer": (lambda: kernels.layer_norm(eps=EPS), cases.layer_norm),
}


def made(name: str, path: str = "cpu") -> nn.Cell:
    with override("layer_norm" if name == "layer" else "rms_norm", path):
        return NORMS[name][0]()


def arguments(name: str, *shape: int, scale: float = 1.0, mean: float = 0.0) -> tuple[np.ndarray, ...]:
    """x, weight, and a bias for layer norm: none of them special."""
    x, weight, bias = normal(*shape, scale=scale) + np.float32(mean), 1 + normal(shape[-1], seed=1), normal(shape[-1])
    return (x, weight, bias) if name == "layer" else (x, weight)


def case(name: str, *shape: int, **changes: float) -> tuple:
    inputs = arguments(name, *shape, **changes)
    return NORMS[name][1], inputs, len(inputs)


def test_a_cpu_with_a_compiler_takes_cpp(compiler):
    kernels.rms_norm(eps=EPS)
    kernels.layer_norm(eps=EPS)
    assert {("rms_norm", "cpu"), ("layer_norm", "cpu")} <= {(choice.kernel, choice.path) for choice in choices()}
    kernels.layer_norm(eps=EPS, dtype="float16")
    assert (choices()[-1].path, "float32, not float16" in choices()[-1].reason) == ("reference", True)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradients(shape, name, path):
    assert_holds(made(name, path), *case(name, *shape))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NORMS)
def test_recomputed(name, mode):
    kernel = made(name)
    kernel.recompute()
    assert_holds(kernel, *case(name, 7, 65), MODES[mode])


@pytest.mark.parametrize("name", NORMS)
def test_graph_mode(name):
    assert_holds(made(name), *case(name, 2, 3, 5), ms.GRAPH_MODE)


@pytest.mark.parametrize("name", NORMS)
def test_small_rows_feel_epsilon(name):
    assert_holds(made(name), *case(name, 7, 65, scale=0.02))


def test_a_large_mean_costs_no_digits():
    """Deviations are a hundredth of the mean; a variance from the mean of squares would have three digits left."""
    assert_holds(made("layer"), *case("layer", 7, 1000, mean=100.0))


@pytest.mark.parametrize("level", ["O2", "O3"])
@pytest.mark.parametrize("mode", MODES)
def test_mixed_precision_leaves_it_in_float32(mode, level):
    """C++ would refuse float16; only what comes in may be rounded to it."""
    x, weight = arguments("rms", 7, 65)
    plain, mixed = (Normed(made("rms"), weight) for _ in range(2))
    mixed = ms.amp.auto_mixed_precision(mixed, level, dtype=ms.float16)
    with execution(MODES[mode]):
        for expected, got in zip(*(both(net, ms.Tensor(x)) for net in (plain, mixed)), strict=True):
            assert np.abs(got - expected).max() < 1e-3 * np.abs(expected).max()


def both(net: nn.Cell, x: ms.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """The output, and the gradient of its cubes' sum."""
    return net(x).asnumpy().astype(np.float32), ms.grad(Cubes(net))(x).asnumpy()


class Cubes(nn.Cell):
    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net = net

    def construct(self, x):
        y = self.net(x).astype(ms.float32)
        return (y * y * y).sum()


class Normed(nn.Cell):
    def __init__(self, kernel: nn.Cell, weight: np.ndarray) -> None:
        super().__init__()
        self.kernel, self.weight = kernel, ms.Parameter(ms.Tensor(weight), name="weight")

    def construct(self, x):
        return self.kernel(x, self.weight)


def gradients(rows: int, width: int, threads: int) -> tuple[np.ndarray, ...]:
    """dx, dweight and dbias of a layer norm whose x̂ is x, and dy all of one sign: the sums only grow."""
    x, dy = normal(rows, width), np.abs(normal(rows, width, seed=3)) + np.float32(0.1)
    mean, rstd = np.zeros(rows, np.float32), np.ones(rows, np.float32)
    out = np.empty_like(x), np.empty(width, np.float32), np.empty(width, np.float32)
    assert call("layer_norm_grad", [x, np.ones(width, np.float32), mean, rstd, dy, *out], threads) == 0
    expected = (dy.astype(np.float64) * x).sum(0), dy.astype(np.float64).sum(0)
    for got, exact in zip(out[1:], expected, strict=True):
        assert np.abs(got - exact).max() <= 1e-6 * np.abs(exact).max()
    return out


@pytest.mark.parametrize("rows", [1, 65, 100_000])
def test_any_number_of_threads_gives_the_same_bits(rows):
    one, two, three = (gradients(rows, 24, threads) for threads in (1, 2, 3))
    for a, b, c in zip(one, two, three, strict=True):
        assert a.tobytes() == b.tobytes() == c.tobytes()


def test_threads_are_set_as_asked():
    compiled = ctypes.CDLL(str(library()))
    compiled.omp_set_num_threads(3)
    assert compiled.omp_get_max_threads() == 3


@pytest.mark.parametrize("compiler", OTHER_CPUS)
def test_on_narrower_vectors(compiler):
    with planted("norm.cc", compiler=compiler):
        for name in NORMS:
            for shape in ((7, 65), (3, 1000), (5, 3)):
                assert_holds(made(name), *case(name, *shape))


@pytest.mark.parametrize(
    ("name", "old", "new", "part"),
    [
        ("rms", "std::sqrt(squares.of[0] / d + eps)", "std::sqrt(squares.of[0] / d)", 0),
        ("layer", "return {rough + shift,", "return {rough * 1.00001f + 1e-5f,", 0),
        ("layer", "inner[r] = both.of[0] / d;", "inner[r] = 0.999f * both.of[0] / d;", 1),
        ("rms around zero", "dweight += dy * x;", "dweight = dy * x;", 1),
        ("layer", "collect(out.dbias, partials + in.d)", "collect(out.dbias, partials)", 1),
    ],
)  # fmt: skip
def test_a_planted_fault_is_seen(name, old, new, part):
    """In the value (part 0) or in a gradient (1)."""
    with planted("norm.cc", old, new):
        assert used(made(name), *case(name, 7, 65))[part] > 2


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(sorted(NORMS)),
    st.integers(1, 9),
    st.integers(2, 150),
    st.sampled_from([0.01, 1.0, 300.0]),
    st.sampled_from([0.0, 3.0, -40.0]),
)
def test_any_shape_and_size(name, rows, width, scale, mean):
    """Values stay within the limits wherever float32 itself can: rows of few digits are left to the gradient's."""
    value, _ = used(made(name), *case(name, rows, width, scale=scale, mean=mean))
    assert value <= max(1, abs(mean) / scale / 10)


def test_torch_agrees_with_the_formulas():
    x, weight = (torch.from_numpy(x) for x in arguments("rms", 7, 65))
    expected = torch.nn.functional.rms_norm(x, (65,), weight, EPS)
    assert torch.allclose(cases.rms_norm(x, weight), expected, atol=1e-6)
