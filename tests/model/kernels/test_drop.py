"""Dropout by a counter: its masks bit for bit, that they look like chance, and that a poor hash would be seen."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from mindport.errors import UsageError
from mindport.model import kernels
from mindport.model.kernels import override
from tests.model.kernels.cases import normal
from tests.model.kernels.exactness import ours
from tests.model.kernels.hashes import factors, keep, kept, place
from tests.model.kernels.operators import call

PATHS, MODES = ("cpu", "reference"), (ms.PYNATIVE_MODE, ms.GRAPH_MODE)


def made(path, p=0.3, **where):
    with override("dropout", path):
        return kernels.dropout(p=p, place=place(**where))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", PATHS)
def test_value_and_gradient_bit_for_bit(path, mode):
    x, weight = normal(3, 5, 77), normal(3, 5, 77, seed=1)
    factor = factors(15, 77, 0.3).reshape(x.shape).astype(np.float32)
    value, (gradient,) = ours(made(path), (x,), 1, weight, mode)
    np.testing.assert_array_equal(value, x * factor)
    np.testing.assert_array_equal(gradient, weight * factor)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("shape", [(1,), (64,), (2, 0, 8), (1000, 3)])
def test_any_shape(path, shape):
    rows = int(np.prod(shape[:-1]))
    got = made(path)(Tensor(np.ones(shape, np.float32))).asnumpy()
    np.testing.assert_array_equal(got, factors(rows, shape[-1], 0.3).reshape(shape).astype(np.float32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", PATHS)
def test_processes_that_share_a_batch_drop_what_one_would(path, mode):
    """Batch rows 2 and 3 of 4, and of six heads the middle ones."""
    whole = factors(4 * 6 * 5, 77, 0.3).reshape(4, 6, 5, 77).astype(np.float32)
    among, rows = {"part": 1, "shares": 3, "share": 1}, np.ones((2, 2, 5, 77), np.float32)
    value, (gradient,) = ours(made(path, **among), (rows,), 1, rows, mode)
    for got in (value, gradient):
        np.testing.assert_array_equal(got, whole[2:, 2:4])
    np.testing.assert_array_equal(made(path, part=1)(Tensor(rows)).asnumpy().reshape(20, 77),
                                  factors(40, 77, 0.3)[20:].astype(np.float32))  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_half_is_rounded_once(path):
    x = normal(4, 9).astype(np.float16)
    got = made(path)(Tensor(x)).asnumpy()
    assert got.dtype == np.float16
    expected = x.astype(np.float32) * factors(4, 9, 0.3).astype(np.float32)
    np.testing.assert_array_equal(got, expected.astype(np.float16))


@pytest.mark.parametrize("path", PATHS)
def test_what_is_kept_keeps_nan_and_what_is_dropped_is_0(path):
    got = made(path)(Tensor(np.full((8, 8), np.nan, np.float32))).asnumpy()
    np.testing.assert_array_equal(np.isnan(got), kept(8, 8, 0.3))
    assert (got[~kept(8, 8, 0.3)] == 0).all()


@pytest.mark.parametrize("p", [-0.1, 1.0, 1 - 1e-9, float("nan")])
def test_no_probability_stops(p):
    with pytest.raises(UsageError, match="no probability"):
        kernels.dropout(p=p, place=place())


def test_no_place_stops():
    with pytest.raises(UsageError, match="random numbers"):
        kernels.attention(heads=2, kv_heads=2, head_dim=8, scale=1.0, dropout=0.1, dtype="float32")


# Chance. Each statistic is one of a normal distribution, but the last: the largest of many waves.

P, SIDE = 0.1, 512
SHIFTS = ((0, 1), (1, 0), (1, 1), (0, 8), (8, 0), (0, 64), (64, 0), (0, 256), (256, 0))


def from_operator(seed=0, passes=0, number=0):
    """(SIDE, SIDE) of True and False, from the C++ function."""
    out = np.empty((SIDE, SIDE), np.float32)
    where = [np.array([seed, passes], np.int32), np.array([number, *keep(P)[1][1:]], np.int32)]
    assert call("dropout", [np.ones_like(out), *where, out]) == 0
    return out != 0


def deviations(mask) -> dict[str, float]:
    """How far a mask is from chance: of all elements, of neighbours, of rows, of columns, of its strongest wave."""
    noise = (mask - (1 - P)) / np.sqrt(P * (1 - P))
    found = {"rate": noise.sum() / SIDE}
    for down, right in SHIFTS:
        found[f"{down}, {right} apart"] = correlation(noise[down:, right:], noise[: SIDE - down, : SIDE - right])
    for axis in (0, 1):
        found[f"sums over axis {axis}"] = ((noise.sum(axis) ** 2).mean() / SIDE - 1) * np.sqrt(SIDE / 2)
    waves = np.abs(np.fft.fft2(noise)) ** 2 / noise.size
    found["waves"] = (waves.max() - np.log(noise.size / 2)) / 2
    return found


def correlation(one, other) -> float:
    return (one * other).sum() / np.sqrt(one.size)


LIMIT = 5  # standard deviations: one of a million


@pytest.mark.parametrize(
    "where", [{}, {"seed": 1}, {"passes": 1}, {"number": 1}, {"seed": -9, "passes": 10**6}], ids=str
)
def test_a_mask_looks_like_chance(where):
    assert {k: v for k, v in deviations(from_operator(**where)).items() if abs(v) > LIMIT} == {}


def test_masks_have_nothing_to_do_with_each_other():
    masks = [from_operator(seed, passes, number) for seed in (0, 1) for passes in (0, 1, 2) for number in (0, 1)]
    noise = [(mask - (1 - P)) / np.sqrt(P * (1 - P)) for mask in masks]
    pairs = [correlation(noise[i], noise[j]) for i in range(len(noise)) for j in range(i)]
    assert max(map(abs, pairs)) < LIMIT


POOR = {
    "one multiplication": lambda row, column: (row * SIDE + column) * 2654435761 % 2**32,
    "the same in every row": lambda row, column: np.random.default_rng(0).integers(0, 2**32, SIDE) + 0 * row,
    "a rate of 0.11": lambda row, column: np.random.default_rng(0).integers(0, int(2**32 / 1.1), (SIDE, SIDE)),
}


@pytest.mark.parametrize("name", POOR)
def test_a_poor_hash_is_seen(name):
    hashed = POOR[name](np.arange(SIDE)[:, None], np.arange(SIDE))
    assert max(map(abs, deviations(hashed >= P * 2**32).values())) > LIMIT
