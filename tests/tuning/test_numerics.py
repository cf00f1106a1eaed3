"""Equal computations agree; different ones, missing values and NaN do not."""

from __future__ import annotations

import numpy as np
import pytest

from mindport.tuning.numerics import agree

Y = np.array([1.0, -4.0, 2.0])


def test_the_error_is_relative_to_the_largest_value():
    (row,) = agree("torch", {"y": Y + np.array([0, 0, 0.004])}, {"y": Y}, {"": 1e-2})
    assert row.error == pytest.approx(1e-3) and row.ok
    assert not agree("torch", {"y": Y * 1.02}, {"y": Y}, {"": 1e-2})[0].ok


@pytest.mark.parametrize("ours", [{}, {"y": Y[:2]}, {"y": Y * np.nan}], ids=["missing", "other shape", "NaN"])
def test_what_cannot_be_compared_is_a_mismatch(ours):
    assert not agree("torch", ours, {"y": Y}, {"": float("inf")})[0].ok


def test_a_value_that_only_ours_has_is_a_mismatch():
    assert [row.ok for row in agree("torch", {"y": Y, "z": Y}, {"y": Y}, {"": 1.0})] == [True, False]


def test_the_longest_name_that_fits_gives_the_limit():
    limits = {"": 1.0, "loss": 1e-4, "loss 2": 1e-3}
    values = dict.fromkeys(("y", "loss 1", "loss 2"), Y)
    assert [row.limit for row in agree("torch", values, values, limits)] == [1.0, 1e-4, 1e-3]


def test_zeros_agree_with_zeros_only():
    zero = np.zeros(3)
    assert agree("torch", {"y": zero}, {"y": zero}, {"": 1e-6})[0].ok
    assert not agree("torch", {"y": Y}, {"y": zero}, {"": 1e-6})[0].ok
    assert agree("torch", {"y": zero[:0]}, {"y": zero[:0]}, {"": 1e-6})[0].ok
