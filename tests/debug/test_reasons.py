"""What is in a tensor, which part of a statement is guilty, and why: each judged alone, right and wrong."""

from __future__ import annotations

import ast

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from mindport.debug import find_nonfinite
from mindport.debug.expressions import culprit, softmax_operands
from mindport.debug.modes import mode
from mindport.debug.reasons import DO, why
from mindport.debug.slopes import common
from mindport.debug.summary import summarise

INF, NAN = np.inf, np.nan


@pytest.fixture(autouse=True)
def _pynative():
    with mode(ms.PYNATIVE_MODE):
        yield


def guilty(code, masks=True, **local):
    """The culprit of one statement, with float32 tensors unless they come as float16 arrays."""
    tensors = {name: Tensor(np.asarray(v, getattr(v, "dtype", np.float32))) for name, v in local.items()}
    return culprit(ast.parse(code).body[0], tensors, {"ops": ops, "ms": ms}, masks=masks)


def test_a_summary_counts_and_ranges():
    found = summarise("x", np.array([[1, NAN, 3], [INF, -INF, -INF], [NAN, NAN, NAN], [4, 5, -6]], np.float32))
    assert (found.nan, found.above, found.below) == (4, 1, 2)
    assert (found.low, found.high, found.largest) == (-6, 5, 6)
    assert (found.bad_rows, found.full_rows) == (3, 2)
    assert found.rows == ((1,), (2,), (0,))  # whole rows first
    assert found.share == pytest.approx(7 / 12)
    assert not found.finite and not found.masks
    assert "3 of 4 rows (2 of them whole)" in found.where()


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_a_summary_takes_any_shape(shape):
    found = summarise("x", np.zeros(shape, np.float16))
    assert found.finite and found.where() == "" and found.dtype == "float16"
    assert (found.low is None) == (0 in shape)


def test_minus_infinity_alone_is_a_mask():
    assert summarise("x", np.array([0, -INF])).masks
    assert not summarise("x", np.array([0, -INF, NAN])).masks
    assert not summarise("x", np.array([0.0])).masks


HALF = np.array([[300.0, 1.0]], np.float16)


@pytest.mark.parametrize(
    ("code", "part", "kind", "local"),
    [
        ("y = ops.exp(x) + 1", "ops.exp(x)", "overflow", {"x": [100.0]}),
        ("y = (x * x).sum()", "x * x", "overflow", {"x": HALF}),
        ("return x / (n - n)", "x / (n - n)", "division by zero", {"x": [1.0], "n": [2.0]}),
        ("x /= n", "x / n", "division by zero", {"x": [0.0], "n": [0.0]}),
        ("y: int = -ops.log(p)", "ops.log(p)", "logarithm of zero", {"p": [0.0, 1.0]}),
        ("y = ops.sqrt(v)", "ops.sqrt(v)", "root of a negative number", {"v": [-1e-9, 1.0]}),
        ("y = ops.softmax(s, -1)", "ops.softmax(s, -1)", "masked row", {"s": np.full((1, 2), -INF, np.float16)}),
        ("y = s - s.max()", "s - s.max()", "masked row", {"s": [[-INF, -INF]]}),
        ("y = (s * z).sum()", "s * z", "inf − inf", {"s": [[1.0, -INF]], "z": [[1.0, 0.0]]}),
        ("y = ops.bad(v) if 1 > 2 else ops.exp(v)", "ops.exp(v)", "overflow", {"v": [100.0]}),
        ("y = ops.rsqrt(v)", "ops.rsqrt(v)", "division by zero", {"v": [0.0]}),
    ],
)
def test_a_statement_is_explained(code, part, kind, local):
    found = guilty(code, masks="log" not in code, **local)
    assert (found.code, why(found).kind) == (part, kind)
    assert why(found).do and kind in DO


@pytest.mark.parametrize(
    "code",
    ["y = ops.softmax(s, -1)", "y = s + 1", "seen.append(s / 0)", "y = [t / 0 for t in s]", "y = unknown(s)", "pass",
     "y = (z := s)"],
)  # fmt: skip
def test_sound_statements_and_those_that_must_not_run_twice_are_left_alone(code):
    assert guilty(code, s=[[0.0, -INF], [1.0, 2.0]]) is None


def test_in_float32_the_value_would_be_finite():
    found = guilty("y = x * x", x=HALF)
    assert found.in_float32.finite and "float16 ends at 65504" in why(found).says and "9e+04" in why(found).says
    assert guilty("y = x * x", x=[1e30]).in_float32 is None
    assert "no wider type" in why(guilty("y = x * x", x=[1e30])).do


def test_the_operands_of_a_softmax_are_seen_inside_other_expressions():
    node = ast.parse("y = f(1) + ops.softmax(s + 1, -1)").body[0]
    (found,) = softmax_operands(node, {"s": Tensor([[0.0, -INF]], ms.float32)}, {"ops": ops})
    assert (found.name, found.masks) == ("s + 1", True)
    assert softmax_operands(node, {}, {}) == ()


@pytest.mark.parametrize(
    ("names", "cell"),
    [
        (["a.b.q", "a.b.k"], "a.b"),
        (["a.q"], "a.q"),
        (["a.q", "a.q"], "a.q"),
        (["a", "b"], ""),
        (["a.b", "a.b.c"], "a.b"),
    ],
)
def test_the_cell_around_several(names, cell):
    assert common(names) == cell


class TwoReaders(nn.Cell):
    """One tensor that two cells and the caller's own code read; the slope of one of them is infinite at 0."""

    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor([0.0, 1.0], ms.float32), name="weight")
        self.first, self.sound, self.steep = nn.Identity(), nn.ReLU(), Root()

    def construct(self, x):
        y = self.first(x * self.weight)
        return self.sound(y).sum() + self.steep(y).sum() + y.sum()


class Root(nn.Cell):
    def construct(self, x):
        return ops.sqrt(x)


def test_a_gradient_between_several_readers_belongs_to_the_cell_around_them():
    found = find_nonfinite(TwoReaders(), Tensor([1.0, 1.0], ms.float32))
    assert (found.phase, found.module) == ("backward", "TwoReaders")
    assert found.values[0].nan + found.values[0].above > 0


class TakesMask(nn.Cell):
    """A mask of 0 and −inf that comes in as an input, a keyword, and several outputs."""

    def __init__(self):
        super().__init__()
        self.softmax = nn.Softmax(-1)

    def construct(self, scores, mask=None):
        weights = self.softmax(scores + mask)
        return weights, {"scores": scores}


def test_a_mask_that_comes_in_is_no_alarm():
    scores = Tensor(np.zeros((2, 3), np.float32))
    sound = Tensor(np.array([[0, -INF, -INF], [0, 0, -INF]], np.float32))
    net = TakesMask()
    assert find_nonfinite(lambda s: net(s, mask=sound)[0], scores, cell=net).ok
    hidden = Tensor(np.array([[-INF, -INF, -INF], [0, 0, -INF]], np.float32))
    found = find_nonfinite(lambda s: net(s, mask=hidden)[0], scores, cell=net)
    assert found.cause == "masked row" and found.module in ("softmax", "TakesMask")
