"""The round trip's verdict turns red when anything differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mindport.errors import FileError
from mindport.weights import convert, verify_round_trip
from tests.weights.models import make


@pytest.fixture
def source(tmp_path: Path) -> Path:
    convert(make(tmp_path / "hf", "gpt2"), tmp_path / "ms", progress=False)
    return tmp_path / "hf"


def test_it_leaves_nothing_behind(source: Path, tmp_path: Path) -> None:
    trip = verify_round_trip(source, tmp_path / "ms", progress=False)
    assert trip.ok and trip.properties()[0].state == "verified" and trip.bytes > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "ms"]


@pytest.mark.parametrize("fault", ["value", "sign of zero", "precision", "extra", "metadata"])
def test_any_difference_turns_it_red(fault: str, source: Path, tmp_path: Path) -> None:
    path, name = source / "model.safetensors", "transformer.h.1.mlp.c_fc.bias"
    tensors, metadata = load_file(path), {"format": "pt"}
    if fault == "value":
        tensors[name][3] = np.nextafter(tensors[name][3], np.float32(9))
    elif fault == "sign of zero":
        tensors[name][:] = -0.0
        save_file(tensors, path, metadata)
        convert(source, tmp_path / "ms", overwrite=True, progress=False)
        tensors[name][:] = 0.0
    elif fault == "precision":
        tensors[name] = tensors[name].astype(np.float16)
    elif fault == "extra":
        tensors["more"] = np.ones(1, np.float32)
    else:
        metadata = {"format": "pt", "by": "hand"}
    save_file(tensors, path, metadata)
    trip = verify_round_trip(source, tmp_path / "ms", progress=False)
    assert not trip.ok and trip.properties()[0].state == "failed" and trip.identical == ()
    expected = {"extra": ("more",), "metadata": ()}.get(fault, (name,))
    assert trip.different == expected


def test_weights_without_a_source_have_no_round_trip(source: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    from mindport.weights.manifest import read_manifest, write_manifest

    write_manifest(tmp_path / "ms", replace(read_manifest(tmp_path / "ms"), source=None))
    back = convert(tmp_path / "ms", tmp_path / "back", to="huggingface", progress=False)
    assert back.ok and back.prefix == "transformer."
    before, after = load_file(source / "model.safetensors"), load_file(tmp_path / "back/model.safetensors")
    assert before.keys() == after.keys() and all(np.array_equal(before[n], after[n]) for n in before)
    with pytest.raises(FileError, match="did not come from"):
        verify_round_trip(source, tmp_path / "ms", progress=False)
