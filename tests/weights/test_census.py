"""NaN and infinities: counted in every precision, carried exactly, and said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.weights import convert, verify_round_trip
from mindport.weights.census import not_finite
from mindport.weights.dtypes import NUMPY
from tests.weights.models import LLAMA, make, save, tensors_of


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20), st.sampled_from(sorted(NUMPY)))
def test_the_count_is_numpys(bits: list[int], code: str) -> None:
    x = np.array(bits, np.uint32).view(NUMPY[code])
    with np.errstate(invalid="ignore"):
        expected = int(np.count_nonzero(~np.isfinite(x.astype(np.float32))))
    assert not_finite(x) == expected


def test_a_transposed_array_and_a_scalar_are_counted() -> None:
    assert not_finite(np.array([[1, np.nan, 2], [np.inf, 3, -np.inf]], np.float32).T) == 3
    assert not_finite(np.array(np.nan, np.float16)) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_model_with_nan_goes_across_exactly_and_aloud(dtype: Any, tmp_path: Path) -> None:
    tensors = tensors_of(LLAMA, tmp_path / "hf", dtype)
    tensors["model.norm.weight"][:2] = np.nan
    tensors["lm_head.weight"][3, 4] = -np.inf
    source = save(tmp_path / "hf", LLAMA, tensors)
    for report in (convert(source, tmp_path / "ms", progress=False),
                   convert(tmp_path / "ms", tmp_path / "back", to="huggingface", progress=False)):  # fmt: skip
        assert report.ok and sorted(odd.count for odd in report.not_finite) == [1, 2]
        states = {row.name.split(": ")[1]: row.state for row in report.properties()}
        assert states["every weight is a finite number"] == "failed"
        assert states["files read back bit for bit"] == "verified"
        assert "NaN or infinite" in report.notes[0] and "norm.weight (2)" in report.notes[0]
        assert "Not finite" in report.text()
    assert verify_round_trip(source, tmp_path / "ms", progress=False).ok


def test_a_sound_model_is_said_to_be_finite(tmp_path: Path) -> None:
    report = convert(make(tmp_path / "hf"), tmp_path / "ms", progress=False)
    assert report.not_finite == () and all(row.state == "verified" for row in report.properties())
    assert not any("NaN" in note for note in report.notes)
