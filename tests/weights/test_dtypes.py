"""Precisions: what is kept, what is lost, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mindport.errors import UsageError
from mindport.weights.dtypes import NUMPY, cast, code_of, digest


@pytest.mark.parametrize("code", NUMPY)
def test_the_same_precision_is_the_same_array(code: str) -> None:
    x = np.arange(6).astype(NUMPY[code])
    y, error = cast("x", x, code)
    assert y is x and error == 0 and code_of(y) == code


def test_the_largest_change_is_measured() -> None:
    x = np.array([1.0, 1.0 + 2**-12, -3.0], np.float32)
    y, error = cast("x", x, "F16")
    assert y.dtype == np.float16 and error == 2**-12


def test_widening_changes_nothing() -> None:
    x = np.array([1.5, -2.25, 3e38], ml_dtypes.bfloat16)
    y, error = cast("x", x, "F32")
    assert error == 0 and np.array_equal(y.astype(ml_dtypes.bfloat16), x)


def test_a_value_that_would_become_infinite_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"1 values do not fit(.|\n)*blocks.0(.|\n)*70000(.|\n)*65504(.|\n)*bfloat16"):
        cast("blocks.0.mlp.up.weight", np.array([1.0, 70000.0, np.inf], np.float32), "F16")


def test_infinities_and_nan_of_the_source_stay_what_they_are() -> None:
    y, error = cast("x", np.array([np.inf, -np.inf, np.nan, 1.0], np.float32), "F16")
    assert np.isposinf(y[0]) and np.isneginf(y[1]) and np.isnan(y[2]) and error == 0


def test_a_digest_tells_bytes_shape_and_precision_apart() -> None:
    x = np.zeros((2, 3), np.float32)
    others = [x.reshape(3, 2), x.view(np.int32), -x, np.zeros((2, 4), np.float32)]  # -0.0 differs from 0.0 in one bit
    assert len({digest(x), *map(digest, others)}) == 5
    assert digest(np.asfortranarray(x + 1)) == digest(x + 1)
