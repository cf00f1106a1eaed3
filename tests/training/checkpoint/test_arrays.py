"""Any arrays by name come back as they went, byte for byte."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from mindport.errors import FileError, UsageError
from mindport.training.checkpoint.arrays import specs_of, take_state, write_files
from mindport.training.checkpoint.pieces import open_files
from mindport.weights.dtypes import ARRAYS
from mindport.weights.safetensors_io import make_header
from mindport.weights.writers import FileLayout
from tests.training.checkpoint.runs import same

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(lambda name: name != "__metadata__")


def write(place: Path, state: dict[str, np.ndarray]) -> None:
    write_files(place, FileLayout({"x.safetensors": make_header(specs_of(state), {})}), state)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Any bits in any type and shape: NaNs with payloads, nothing at all, a single number."""
    dtype = draw(st.sampled_from(list(ARRAYS.values())))
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    count = int(np.prod(shape)) * dtype.itemsize
    data = np.frombuffer(draw(st.binary(min_size=count, max_size=count)), np.uint8)
    return (data & 1 if dtype.kind == "b" else data).view(dtype).reshape(shape)


@settings(max_examples=60)
@given(st.dictionaries(NAMES, arrays(), max_size=6))
def test_any_arrays_come_back_bit_for_bit(state: dict[str, np.ndarray]) -> None:
    with tempfile.TemporaryDirectory() as place:
        write(Path(place), take_state(state))
        assert same(open_files(Path(place), ["x.safetensors"]), state)


def test_the_library_reads_the_same(tmp_path: Path) -> None:
    state = {"step": np.array(7, np.int32), "seen": np.array([True, False]), "m": np.ones((2, 3)), "none": np.zeros(0)}
    write(tmp_path, state)
    assert same(load_file(tmp_path / "x.safetensors"), state)


def test_a_view_that_is_not_contiguous_is_stored_as_it_looks(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    write(tmp_path, take_state({"turned": x.T, "second": x[:, ::2]}))
    assert same(open_files(tmp_path, ["x.safetensors"]), {"turned": x.T, "second": x[:, ::2]})


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("__metadata__", np.zeros(2)),
        ("\ud800", np.zeros(2)),
        ("complex", np.zeros(2, np.complex128)),
        ("text", np.array(["a"])),
        ("big-endian", np.zeros(2, ">f4")),
    ],
)
def test_what_the_file_cannot_hold_is_refused(name: str, x: np.ndarray) -> None:
    with pytest.raises(UsageError, match=rf"cannot be stored(.|\n)*{x.dtype}"):
        take_state({name: x})


def test_what_does_not_read_back_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindport.training.checkpoint.arrays.digest", lambda x: "another")
    with pytest.raises(FileError, match="does not read back"):
        write(tmp_path, {"a": np.zeros(3)})


def test_an_array_that_is_not_there_is_a_key_error(tmp_path: Path) -> None:
    write(tmp_path, {"a": np.zeros(3)})
    found = open_files(tmp_path, ["x.safetensors"])
    assert "b" not in found and len(found) == 1
    with pytest.raises(KeyError):
        found["b"]
