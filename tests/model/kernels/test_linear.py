"""x Wᵀ + b in C++ and by plain operators, against float64: values and gradients at awkward shapes, in both modes."""

from __future__ import annotations

import ctypes

import mindspore as ms
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore import Tensor, nn

from mindport.model import kernels
from mindport.model.kernels import choices, override
from mindport.model.kernels.library import library
from tests.model.kernels.cases import normal
from tests.model.kernels.planted import OTHER_CPUS, planted
from tests.model.reference import MODES, execution

PATHS = ["cpu", "reference"]
SOURCES = ("linear.cc", "gemm.cc", "gemm_few_rows.cc")
# (…, in), out: one of each; few rows; no multiple of any vector or tile; several blocks of rows, columns, depth
SHAPES = [((1, 1), 1), ((7, 65), 3), ((8, 33), 70), ((9, 31), 7), ((2, 65, 7), 49), ((1, 1000), 65), ((65, 1000), 1),
          ((1000, 65), 33), ((1200, 9), 50), ((13, 50), 1201), ((21, 1300), 30)]  # fmt: skip


def kernel(path: str = "cpu", bias: bool = True) -> kernels.selector.Kernel:
    with override("linear", path):
        return kernels.linear(bias=bias, dtype="float32")


def case(x_shape: tuple[int, ...], out: int) -> list[np.ndarray]:
    """x, W, b, and the gradient that comes from above."""
    return [normal(*x_shape), normal(out, x_shape[-1], seed=1), normal(out, seed=2), normal(*x_shape[:-1], out, seed=3)]


def exact(x, weight, bias, dy) -> list[np.ndarray]:
    """y, dx, dW, db in float64."""
    x, weight, bias, dy = (a.astype(np.float64) for a in (x, weight, bias, dy))
    rows, above = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return [x @ weight.T + bias, dy @ weight, above.T @ rows, above.sum(0)]


class Scalar(nn.Cell):
    def __init__(self, cell: nn.Cell) -> None:
        super().__init__()
        self.cell = cell

    def construct(self, dy, *inputs):
        return (self.cell(*inputs) * dy).sum()


class Both(nn.Cell):
    """The value, and the gradients of (value · dy).sum()."""

    def __init__(self, cell: nn.Cell, count: int) -> None:
        super().__init__()
        self.cell, self.gradients = cell, ms.grad(Scalar(cell), tuple(range(1, 1 + count)))

    def construct(self, dy, *inputs):
        return self.cell(*inputs), self.gradients(dy, *inputs)


def ours(cell: nn.Cell, x, weight, bias, dy, mode: str = "pynative") -> list[np.ndarray]:
    inputs = [Tensor(a) for a in (x, weight, bias) if a is not None]
    with execution(MODES[mode]):
        y, gradients = Both(cell, len(inputs))(Tensor(dy), *inputs)
        return [a.asnumpy() for a in (y, *gradients)]


def error(got: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest part of a limit that is used up: 2e-6 of the largest value, 1e-5 of the largest gradient."""
    assert [a.shape for a in got] == [a.shape for a in expected]
    parts = [np.abs(g - e).max() / max(np.abs(e).max(), 1e-3) for g, e in zip(got, expected, strict=True)]
    return max(parts[0] / 2e-6, *(part / 1e-5 for part in parts[1:]))


def worst(shapes=SHAPES) -> float:
    return max(error(ours(kernel(), *case(*shape)), exact(*case(*shape))) for shape in shapes)


def test_a_cpu_with_a_compiler_takes_cpp(compiler):
    kernels.linear(bias=True, dtype="float32")
    assert ("linear", "cpu") in {(choice.kernel, choice.path) for choice in choices()}


def test_half_precision_takes_plain_operators():
    got = kernels.linear(bias=True, dtype="float16")(*(Tensor(a, ms.float16) for a in case((5, 7), 3)[:3]))
    np.testing.assert_allclose(got.asnumpy(), exact(*case((5, 7), 3))[0], atol=2e-2)
    assert any(c.kernel == "linear" and c.path == "reference" and "not float16" in c.reason for c in choices())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradients(path, shape):
    assert error(ours(kernel(path), *case(*shape)), exact(*case(*shape))) <= 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", PATHS)
def test_without_a_bias(path, mode):
    x, weight, bias, dy = case((3, 7, 65), 33)
    got = ours(kernel(path, bias=False), x, weight, None, dy, mode)
    assert error(got, exact(x, weight, 0 * bias, dy)[:3]) <= 1


@pytest.mark.parametrize("shape", [SHAPES[1], SHAPES[4]], ids=str)
def test_graph_mode(shape):
    assert error(ours(kernel(), *case(*shape), "graph"), exact(*case(*shape))) <= 1


@pytest.mark.parametrize("mode", MODES)
def test_under_recompute(mode):
    cell = kernel()
    cell.recompute()
    assert error(ours(cell, *case((2, 65, 7), 49), mode), exact(*case((2, 65, 7), 49))) <= 1


@pytest.mark.parametrize("compiler", OTHER_CPUS)
def test_shorter_vectors(compiler):
    with planted(SOURCES[0], compiler=compiler, beside=SOURCES[1:]):
        assert worst() <= 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows=st.integers(1, 130), out=st.integers(1, 130), depth=st.integers(1, 130))
def test_any_shape(rows, out, depth):
    assert worst([((rows, depth), out)]) <= 1


class TwoKinds(nn.Cell):
    """One with a bias after one without, as in a model with biases and a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.plain, self.biased = kernel(bias=False), kernel()

    def construct(self, x, weight, bias):
        return self.biased(self.plain(x, weight), weight, bias)


@pytest.mark.parametrize("mode", MODES)
def test_both_kinds_in_one_graph(mode):
    """Graph mode keeps one gradient for each name of a function: two of them under one name would be mixed up."""
    x, weight, bias, dy = case((9, 17), 17)
    a, w, g = (array.astype(np.float64) for array in (x, weight, dy))
    expected = [a @ w.T @ w.T + bias, g @ w @ w, g.T @ (a @ w.T) + (g @ w).T @ a, g.sum(0)]
    assert error(ours(TwoKinds(), x, weight, bias, dy, mode), expected) <= 1


class Tied(nn.Cell):
    """One weight used twice: x W Wᵀ with W (out, in) = (d, d)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = kernels.linear(bias=False, dtype="float32")

    def construct(self, x, weight):
        return self.linear(self.linear(x, weight), weight)


@pytest.mark.parametrize("mode", MODES)
def test_a_weight_used_twice_has_the_sum_of_both_gradients(mode):
    x, weight, _, dy = case((9, 17), 17)
    a, w, g = (array.astype(np.float64) for array in (x, weight, dy))
    expected = [a @ w.T @ w.T, g @ w @ w, g.T @ (a @ w.T) + (g @ w).T @ a]
    assert error(ours(Tied(), x, weight, None, dy, mode), expected) <= 1


def test_the_number_of_threads_changes_no_bit():
    openmp = ctypes.CDLL(str(library()))
    before = openmp.omp_get_max_threads()
    try:
        for shape in (*SHAPES, ((300, 200), 150), ((5, 700), 300)):
            found = []
            for threads in (1, 2, 3):
                openmp.omp_set_num_threads(threads)
                found.append([array.tobytes() for array in ours(kernel(), *case(*shape))])
            assert found[0] == found[1] == found[2]
    finally:
        openmp.omp_set_num_threads(before)


def test_infinity_stays_in_its_row():
    """What is packed beside a row, or beyond the last one, must not meet it: 0 · ∞ would be NaN."""
    x, weight, bias, _ = case((13, 31), 35)
    x[4, 7] = np.inf
    y = kernel()(Tensor(x), Tensor(weight), Tensor(bias)).asnumpy()
    assert np.isinf(y[4]).all()
    assert np.isfinite(np.delete(y, 4, 0)).all()


@pytest.mark.parametrize(
    ("x", "weight", "bias"),
    [((5, 7), (3, 8), (3,)), ((5, 7), (3, 7), (4,)), ((5, 7), (7,), (3,)), ((5, 7), (3, 7), (3, 1))],
)
def test_shapes_that_do_not_fit_are_refused(x, weight, bias):
    with pytest.raises((RuntimeError, ValueError, IndexError)):
        kernel()(Tensor(normal(*x)), Tensor(normal(*weight)), Tensor(normal(*bias))).asnumpy()


FAULTS = {
    "a bias added in every block of the depth": ("gemm.cc", "p.bias && !depth.begin ?", "p.bias ?"),
    "later blocks of the depth forget the first": ("gemm.cc", "p.accumulate || depth.begin > 0", "p.accumulate"),
    "a bias's gradient of the first block only": ("gemm.cc", "if (sum) add_sums", "if (sum && !depth.begin) add_sums"),
    "few rows without their tail": ("gemm_few_rows.cc", "d < p.depth;", "d + LANES <= p.depth;"),
    "x for dy in the gradient of W": ("linear.cc", "transposed(call.at(0), N)", "transposed(call.at(1), N)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault):
    source, old, new = FAULTS[fault]
    shapes = [((7, 65), 65), ((9, 700), 20), ((1400, 30), 30)]  # few rows; two blocks of the depth; two in dW
    with planted(source, old, new, beside=SOURCES):
        assert not worst(shapes) <= 2  # NaN is seen too
