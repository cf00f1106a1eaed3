"""Opening a MindPort directory: lazily, in the hub's order, and never one that is not whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mindport.config import schema
from mindport.errors import FileError, MappingError, MindPortError, UsageError
from mindport.files import sha256
from mindport.weights import convert, load
from tests.weights.models import make


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    convert(make(tmp_path / "hf"), tmp_path / "ms", progress=False)
    return tmp_path / "ms"


def test_names_come_in_the_hubs_order_and_values_when_asked(directory: Path) -> None:
    w = load(directory)
    assert list(w) == list(schema.shapes(w.config)) and len(w) == 30
    assert all(w[name].shape == shape for name, shape in schema.shapes(w.config).items())
    assert "nothing" not in w


def test_only_some_names(directory: Path) -> None:
    w = load(directory, names=["norm.weight", "embed.weight"])
    assert list(w) == ["norm.weight", "embed.weight"]
    with pytest.raises(KeyError):
        w["head.weight"]
    with pytest.raises(UsageError, match=r"no such parameter(.|\n)*blocks.9"):
        load(directory, names=["blocks.9.norm1.weight"])


def test_a_checkpoint_opens_like_safetensors(directory: Path, tmp_path: Path) -> None:
    convert(tmp_path / "hf", tmp_path / "ckpt", file_format="ckpt", progress=False)
    a, b = load(directory), load(tmp_path / "ckpt")
    assert list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)
    convert(tmp_path / "ckpt", tmp_path / "back", to="huggingface", progress=False)
    assert sha256(tmp_path / "back/model.safetensors") == sha256(tmp_path / "hf/model.safetensors")


def _manifest(directory: Path, **changes: Any) -> None:
    path = directory / "mindport.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _model(directory: Path, **changes: Any) -> None:
    _manifest(directory, model=json.loads((directory / "mindport.json").read_text())["model"] | changes)


def _source(directory: Path, **changes: Any) -> None:
    _manifest(directory, source=json.loads((directory / "mindport.json").read_text())["source"] | changes)


def _edit(directory: Path, change: Callable[[dict[str, np.ndarray]], object]) -> None:
    """Change the tensors and make the manifest agree with the new bytes."""
    path = directory / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    _manifest(directory, files={path.name: {"sha256": sha256(path), "bytes": path.stat().st_size}})


def _flip(directory: Path) -> None:
    data = bytearray((directory / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (directory / "model.safetensors").write_bytes(data)


FAULTS: dict[str, tuple[Callable[[Path], object], type[MindPortError], str]] = {
    "no manifest": (lambda d: (d / "mindport.json").unlink(), FileError, "no mindport.json"),
    "broken manifest": (lambda d: (d / "mindport.json").write_text("{"), FileError, "not valid JSON"),
    "manifest of a later format": (lambda d: _manifest(d, format=2), FileError, "another format"),
    "manifest with a field too many": (lambda d: _manifest(d, more=1), FileError, "manifest is damaged"),
    "manifest without a model": (lambda d: _manifest(d, model={}), MindPortError, "not a model configuration"),
    "one bit": (_flip, FileError, "changed after the conversion"),
    "missing file": (lambda d: (d / "model.safetensors").unlink(), FileError, "is missing"),
    "manifest that leads out": (
        lambda d: _manifest(d, files={"../hf/model.safetensors": {"sha256": "", "bytes": 0}}),
        FileError,
        "is missing",
    ),
    "files as a list": (lambda d: _manifest(d, files=["model.safetensors"]), FileError, "damaged"),
    "files without bytes": (lambda d: _manifest(d, files={"model.safetensors": {}}), FileError, "was changed"),
    "files of numbers": (lambda d: _manifest(d, files={"model.safetensors": 3}), FileError, "damaged"),
    "no files": (lambda d: _manifest(d, files={}), FileError, "other weight files than lie there"),
    "a weight file more": (lambda d: (d / "model.ckpt").touch(), FileError, r"other weight(.|\n)*model.ckpt"),
    "dtype of a number": (lambda d: _manifest(d, dtype=32), FileError, "damaged(.|\n)*dtype"),
    "allowed as text": (lambda d: _manifest(d, allowed="key"), FileError, "damaged(.|\n)*allowed"),
    "target of a number": (lambda d: _manifest(d, target=3), FileError, "damaged(.|\n)*target"),
    "target that nobody knows": (lambda d: _manifest(d, target="x"), FileError, "a target that this version does not"),
    "rewritten as a list": (lambda d: _manifest(d, rewritten=["x"]), FileError, "damaged(.|\n)*rewritten"),
    "rewritten, of half a letter": (
        lambda d: _manifest(d, rewritten={"config.json": "\ud800"}),
        FileError,
        "damaged(.|\n)*rewritten",
    ),
    "source with a wrong field": (lambda d: _source(d, headers=[]), FileError, "damaged(.|\n)*headers"),
    "source with a wrong prefix": (lambda d: _source(d, prefix=None), FileError, "damaged(.|\n)*prefix"),
    "source with a prefix of none": (lambda d: _source(d, prefix="x"), FileError, "damaged(.|\n)*prefix"),
    "source whose files have no digest": (lambda d: _source(d, files={"a": {}}), FileError, "damaged(.|\n)*files"),
    "source that leads out": (lambda d: _source(d, headers={"../x": "{}"}), FileError, "damaged(.|\n)*headers"),
    "source of half a letter": (lambda d: _source(d, headers={"x": "\ud800"}), FileError, "damaged(.|\n)*headers"),
    "tensors that lead out": (lambda d: _source(d, tensors={"x": "/etc/x"}), FileError, "damaged(.|\n)*tensors"),
    "index of another model": (lambda d: _source(d, index="x"), FileError, "damaged(.|\n)*index"),
    "model with text for a number": (lambda d: _model(d, vocab_size="41"), MindPortError, "vocab_size"),
    "model of a billion layers": (lambda d: _model(d, num_hidden_layers=10**9), MindPortError, "num_hidden_layers"),
    "missing tensor": (lambda d: _edit(d, lambda t: t.pop("norm.weight")), MappingError, "missing: norm.weight"),
    "tensor too many": (
        lambda d: _edit(d, lambda t: t.update(x=np.ones(1, np.float32))),
        MappingError,
        "unexpected: x",
    ),
    "wrong shape": (
        lambda d: _edit(d, lambda t: t.update({"norm.weight": np.ones(7, np.float32)})),
        MappingError,
        r"norm.weight F32 \[7\]",
    ),
    "wrong precision": (
        lambda d: _edit(d, lambda t: t.update({"norm.weight": np.ones(20)})),
        MappingError,
        "norm.weight F64",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_directory_that_is_not_whole_is_refused(fault: str, directory: Path) -> None:
    spoil, error, fragment = FAULTS[fault]
    spoil(directory)
    with pytest.raises(error, match=fragment):
        load(directory)


def test_digests_are_left_out_on_request_only(directory: Path) -> None:
    _flip(directory)
    assert len(load(directory, check=False)) == 30


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    convert(make(tmp_path / "hf"), tmp_path / "ms", file_format="ckpt", progress=False)
    path = tmp_path / "ms/model.ckpt"
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FileError, match="changed after the conversion"):
        load(tmp_path / "ms")
    _manifest(tmp_path / "ms", files={"model.ckpt": {"sha256": sha256(path), "bytes": 100}})
    with pytest.raises(FileError, match="damaged"):
        load(tmp_path / "ms")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tensors": {}}, "model.embed_tokens.weight"),
        ({"prefix": "module."}, "module."),
        ({"tied_duplicates": ["model.norm.weight"]}, "model.norm.weight"),
        ({"tied_duplicates": ["x"]}, "x"),
        ({"tied_duplicates": ["lm_head.weight", "lm_head.weight"]}, "lm_head.weight"),
    ],
)
def test_a_way_back_that_is_not_known_is_refused(
    changes: dict[str, Any], named: str, directory: Path, tmp_path: Path
) -> None:
    """The weights are whole, so they load; only the source's files cannot be made again."""
    _source(directory, **changes)
    assert len(load(directory))
    with pytest.raises(FileError, match=rf"manifest is damaged(.|\n)*{named}"):
        convert(directory, tmp_path / "back", to="huggingface", progress=False)
    assert not (tmp_path / "back").exists()
