"""The C++ operators called directly: each has its row, stays within its arrays, and refuses what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.model.kernels.operators import OPERATORS, call, defined
from tests.model.kernels.sanitize import largest, line

GUARD, MARK = 16, -77  # elements before and after an array, and what stands there


def test_every_operator_has_a_row():
    assert defined() == set(OPERATORS)


def guarded(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy of an array in the middle of a larger one: the copy, and the larger one."""
    around = np.full(array.size + 2 * GUARD, MARK, array.dtype)
    inside = around[GUARD : GUARD + array.size].reshape(array.shape)
    inside[...] = array
    return inside, around


def intact(around: np.ndarray) -> bool:
    return bool((around[:GUARD] == MARK).all() and (around[len(around) - GUARD :] == MARK).all())


@pytest.mark.parametrize("name", OPERATORS)
def test_it_stays_within_its_arrays(name):
    for case in OPERATORS[name]:
        arrays = [guarded(array.make(i)) for i, array in enumerate(case)]
        assert call(name, [inside for inside, _ in arrays]) == 0, line(name, case)
        assert all(intact(around) for _, around in arrays), line(name, case)


def test_the_guard_sees_one_element_too_many():
    arrays = [guarded(np.ones(64, np.float32)), guarded(np.ones(64, np.float32))]
    longer = np.lib.stride_tricks.as_strided(arrays[1][0], (65,))  # of which the guard's first is not the operator's
    assert call("silu", [np.ones(65, np.float32), longer]) == 0
    assert not intact(arrays[1][1])


@pytest.mark.parametrize("name", OPERATORS)
def test_it_refuses_another_count_or_dtype(name):
    arrays = [array.make() for array in largest(OPERATORS[name])]
    assert call(name, arrays[:-1]) != 0
    for i, array in enumerate(arrays):
        assert call(name, [*arrays[:i], np.zeros(array.shape, np.float16), *arrays[i + 1 :]]) != 0, i


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - {"global_norm"}))  # which takes tensors of any shapes
def test_it_refuses_another_shape(name):
    arrays = [array.make() for array in largest(OPERATORS[name])]
    for i, array in enumerate(arrays):
        if (name, i) in (
            ("cross_entropy", 0),
            ("cross_entropy_share", 0),
        ):  # any number of classes fits the other arrays
            continue
        longer = np.zeros((*array.shape[:-1], array.shape[-1] + 1), array.dtype)
        assert call(name, [*arrays[:i], longer, *arrays[i + 1 :]]) != 0, (i, longer.shape)
