"""Directories: what is read, and every kind of directory that is not."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mindport.errors import FileError, MappingError
from mindport.weights import convert, open_hf
from tests.weights.models import LLAMA, make, save, tensors_of

INDEX, SHARD1, SHARD2 = "model.safetensors.index.json", *(f"model-{i:05d}-of-00002.safetensors" for i in (1, 2))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("shards", [1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_every_tensor_is_read_as_it_was_saved(shards: int, dtype: type, tmp_path: Path) -> None:
    tensors = tensors_of(LLAMA, tmp_path, dtype)
    reader = open_hf(save(tmp_path, LLAMA, tensors, shards))
    assert reader.infos.keys() == tensors.keys() and len(reader.shards.files) == shards
    assert all(_same(reader.read(name), x) for name, x in tensors.items())


def test_a_snapshot_of_the_hub_cache_is_read_through_its_links(tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "models--x--y/snapshots/abc", tmp_path / "models--x--y/blobs"
    make(snapshot)
    blobs.mkdir()
    for name in ("model.safetensors", "config.json"):
        (snapshot / name).rename(blobs / name)
        (snapshot / name).symlink_to(Path("../../blobs") / name)
    assert len(open_hf(snapshot).infos) == 30
    assert convert(snapshot, tmp_path / "ms", progress=False).ok


def _index(directory: Path, edit: Callable[[dict[str, str]], object]) -> None:
    path = directory / INDEX
    content = json.loads(path.read_text())
    edit(content["weight_map"])
    path.write_text(json.dumps(content))


def _replace(directory: Path, text: str) -> None:
    (directory / INDEX).write_text(text)


def _truncate(directory: Path) -> None:
    os.truncate(directory / SHARD2, (directory / SHARD2).stat().st_size - 1)


def _link_out(directory: Path) -> None:
    (directory / SHARD1).rename(directory.parent / "elsewhere")
    (directory / SHARD1).symlink_to(directory.parent / "elsewhere")


def _link_companion_out(directory: Path) -> None:
    (directory.parent / "secret").write_text("secret")
    (directory / "special_tokens_map.json").symlink_to(directory.parent / "secret")


def _move_tensor(directory: Path) -> None:
    one, two = load_file(directory / SHARD1), load_file(directory / SHARD2)
    two["lm_head.weight"] = one.pop("lm_head.weight")
    save_file(one, directory / SHARD1)
    save_file(two, directory / SHARD2)


def _twice(directory: Path) -> None:
    one, two = load_file(directory / SHARD1), load_file(directory / SHARD2)
    save_file(two | {"lm_head.weight": one["lm_head.weight"]}, directory / SHARD2)


def _only(directory: Path, *names: str) -> None:
    shutil.rmtree(directory)
    directory.mkdir()
    for name in names:
        (directory / name).write_text("{}")


BROKEN: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "missing shard": (lambda d: (d / SHARD2).unlink(), ("1 of 2 shards are missing", SHARD2, "finish the download")),
    "no index": (lambda d: (d / INDEX).unlink(), ("shards without their index",)),
    "single file too": (lambda d: shutil.copy(d / SHARD1, d / "model.safetensors"), ("both there",)),
    "stale shard": (
        lambda d: shutil.copy(d / SHARD1, d / "model-00003-of-00003.safetensors"),
        ("does not name", "model-00003-of-00003"),
    ),
    "index names a tensor too many": (
        lambda d: _index(d, lambda m: m.update({"ghost": SHARD1})),
        ("1 listed, but in no file: ghost",),
    ),
    "index names a tensor too few": (
        lambda d: _index(d, lambda m: m.pop("lm_head.weight")),
        ("1 in a file, but not listed: lm_head.weight",),
    ),
    "tensor in another shard": (_move_tensor, ("1 in another file than listed: lm_head.weight",)),
    "tensor in two shards": (_twice, ("stands in two shards", "lm_head.weight")),
    "index of a list": (lambda d: _replace(d, "[]"), ("no weight_map",)),
    "index without tensors": (lambda d: _replace(d, '{"weight_map": {}}'), ("no weight_map",)),
    "index is no JSON": (lambda d: _replace(d, "{"), ("not valid JSON", INDEX)),
    "path with ..": (
        lambda d: _index(d, lambda m: m.update(dict.fromkeys(m, "../x.safetensors"))),
        ("leads out of the directory",),
    ),
    "absolute path": (
        lambda d: _index(d, lambda m: m.update(dict.fromkeys(m, "/etc/passwd"))),
        ("leads out of the directory",),
    ),
    "link that leaves": (_link_out, ("symbolic link that leads out",)),
    "companion that leaves": (_link_companion_out, ("symbolic link that leads out", "special_tokens_map.json")),
    "truncated shard": (_truncate, ("truncated", SHARD2)),
    "empty directory": (_only, ("the directory is empty", "download")),
    "no config": (lambda d: _only(d, "model.safetensors"), ("no config.json",)),
    "GGUF only": (lambda d: _only(d, "model.Q4.gguf"), ("GGUF",)),
    "GGUF and config": (lambda d: _only(d, "model.gguf", "config.json"), ("weights of another format",)),
    "config only": (lambda d: _only(d, "config.json"), ("no weights here", "finish the download")),
    "adapter": (lambda d: _only(d, "adapter_model.safetensors", "config.json"), ("adapter", "merge_and_unload")),
    "name of 5000 characters": (
        lambda d: _index(d, lambda m: m.update(dict.fromkeys(m, "x" * 5000))),
        ("fits no disk",),
    ),
    "a name twice in the index": (
        lambda d: _replace(d, f'{{"weight_map": {{"a": "{SHARD1}", "a": "{SHARD2}"}}}}'),
        ("'a' stands there twice", INDEX),
    ),
    "pipe for a shard": (lambda d: ((d / SHARD1).unlink(), os.mkfifo(d / SHARD1)), ("pipe or device", SHARD1)),
    "pipe for the index": (lambda d: ((d / INDEX).unlink(), os.mkfifo(d / INDEX)), ("pipe or device", INDEX)),
    "directory for a shard": (lambda d: ((d / SHARD1).unlink(), (d / SHARD1).mkdir()), ("not a file", SHARD1)),
    "a manifest beside it": (lambda d: (d / "mindport.json").write_text("{}"), ("a manifest of another format",)),
    "link to a shard that was lost": (
        lambda d: ((d / SHARD1).unlink(), (d / SHARD1).symlink_to("../blobs/lost")),
        ("1 of 2 shards are missing", SHARD1),
    ),
    "link to a single file that was lost": (
        lambda d: (_only(d, "config.json"), (d / "model.safetensors").symlink_to("../blobs/lost")),
        ("a file is missing", "model.safetensors, a link to nothing", "finish the download"),
    ),
    "link to an index that was lost": (
        lambda d: (_only(d, "config.json"), (d / INDEX).symlink_to("../blobs/lost")),
        ("a file is missing", f"{INDEX}, a link to nothing"),
    ),
    "link to a tokenizer that was lost": (
        lambda d: (d / "tokenizer.model").symlink_to("../blobs/lost"),
        ("a file is missing", "tokenizer.model, a link to nothing"),
    ),
    "link to a config.json that was lost": (
        lambda d: ((d / "config.json").unlink(), (d / "config.json").symlink_to("../blobs/lost")),
        ("config.json is no file, or a link to nothing",),
    ),
    "no such directory": (shutil.rmtree, ("no such directory",)),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_directory_is_refused_and_nothing_is_written(fault: str, tmp_path: Path) -> None:
    spoil, fragments = BROKEN[fault]
    source = make(tmp_path / "hf", shards=2)
    spoil(source)
    with pytest.raises(FileError) as raised:
        convert(source, tmp_path / "ms", progress=False)
    for fragment in fragments:
        assert fragment in str(raised.value), raised.value
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "ms"))]


# --- pytorch_model.bin -----------------------------------------------------------------------------------------------


class Hostile:
    """Unpickling this would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.path,))


def _bin(directory: Path, content: object, name: str = "pytorch_model.bin", **options: object) -> Path:
    import torch

    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(LLAMA))
    torch.save(content, directory / name, **options)
    return directory


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_bin_is_read_bit_for_bit(dtype: type, zipped: bool, tmp_path: Path) -> None:
    import torch

    tensors = tensors_of(LLAMA, tmp_path, dtype)
    torch_dtype = getattr(torch, np.dtype(dtype).name)
    state = {name: torch.from_numpy(x.astype(np.float32)).to(torch_dtype) for name, x in tensors.items()}
    state["model.norm.weight"] = torch.stack([state["model.norm.weight"]] * 2, 1)[:, 0]  # a view with strides
    reader = open_hf(_bin(tmp_path, state, _use_new_zipfile_serialization=zipped))
    assert reader.format == "pytorch" and reader.infos.keys() == tensors.keys()
    assert all(_same(reader.read(name), x) for name, x in tensors.items())


def test_sharded_bins_are_read_by_their_index(tmp_path: Path) -> None:
    import torch

    tensors = tensors_of(LLAMA, tmp_path)
    names, weight_map = list(tensors), {}
    for i in range(3):
        file = f"pytorch_model-{i + 1:05d}-of-00003.bin"
        _bin(tmp_path, {name: torch.from_numpy(tensors[name]) for name in names[i::3]}, file)
        weight_map |= dict.fromkeys(names[i::3], file)
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    reader = open_hf(tmp_path)
    assert all(_same(reader.read(name), x) for name, x in tensors.items())
    (tmp_path / "pytorch_model-00002-of-00003.bin").unlink()
    with pytest.raises(FileError, match=r"1 of 3 shards are missing"):
        open_hf(tmp_path)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_a_hostile_bin_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    for content, pickled in (({"x": Hostile(trace)}, False), (Hostile(trace), True)):
        directory = _bin(tmp_path / "hf", content)
        if pickled:
            (directory / "pytorch_model.bin").write_bytes(pickle.dumps(content))
        with pytest.raises(FileError, match="nothing in it was executed"):
            open_hf(directory)
    assert not trace.exists()


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_torchs_advice_to_let_a_file_run_is_not_passed_on(tmp_path: Path) -> None:
    contents = ({"x": Hostile(tmp_path / "executed")}, {"x": pickle.PickleBuffer})
    for content in contents:
        with pytest.raises(FileError, match="to be called") as raised:
            open_hf(_bin(tmp_path / "hf", content))
        assert "weights_only" not in str(raised.value), raised.value
    (tmp_path / "hf/pytorch_model.bin").write_bytes(pickle.dumps(contents[0]))
    with pytest.raises(FileError) as raised:
        open_hf(tmp_path / "hf")
    assert "weights_only" not in str(raised.value), raised.value


ODD: dict[str, Callable[[Any, Any], object]] = {
    "sparse": lambda torch, x: {"a": x.to_sparse()},
    "compressed": lambda torch, x: {"a": x.to_sparse_csr()},
    "meta": lambda torch, x: {"a": x.to("meta")},
    "integer name": lambda torch, x: {7: x, "b": x},
    "tuple for a name": lambda torch, x: {("a", "b"): x},
    "number for a tensor": lambda torch, x: {"a": 1.0},
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("odd", ODD)
def test_a_bin_with_tensors_that_hold_no_plain_numbers_is_refused(odd: str, tmp_path: Path) -> None:
    import torch

    with pytest.raises(FileError, match="more than dense tensors with names"):
        open_hf(_bin(tmp_path, ODD[odd](torch, torch.ones(3, 4))))


def test_a_lazily_negated_tensor_is_read_by_value(tmp_path: Path) -> None:
    import torch

    x = torch.complex(torch.ones(3), torch.tensor([1.0, 2.0, 3.0])).conj().imag
    assert x.is_neg()
    assert open_hf(_bin(tmp_path, {"x": x})).read("x").tolist() == [-1.0, -2.0, -3.0]


def test_a_complex_tensor_is_refused(tmp_path: Path) -> None:
    import torch

    source = make(tmp_path / "hf")
    state = {name: torch.from_numpy(x) for name, x in load_file(source / "model.safetensors").items()}
    (source / "model.safetensors").unlink()
    _bin(source, state | {"model.norm.weight": torch.ones(20, dtype=torch.complex64).conj()})
    with pytest.raises(MappingError, match=r"precision(.|\n)*model.norm.weight complex64"):
        convert(source, tmp_path / "ms", progress=False)


@pytest.mark.parametrize("content", [{"model": {}, "epoch": 3}, [1, 2], {}])
def test_a_bin_that_is_no_state_dict_is_refused(content: object, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"not a state_dict|not one tensor"):
        convert(_bin(tmp_path / "hf", content), tmp_path / "ms", progress=False)


def test_a_truncated_bin_is_refused(tmp_path: Path) -> None:
    import torch

    path = _bin(tmp_path, {"x": torch.ones(1000)}) / "pytorch_model.bin"
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(FileError, match=r"damaged(.|\n)*pytorch_model.bin"):
        open_hf(tmp_path)


def test_safetensors_are_preferred_and_the_report_says_so(tmp_path: Path) -> None:
    import torch

    source = make(tmp_path / "hf")
    _bin(source, {"x": torch.ones(1)})
    report = convert(source, tmp_path / "ms", progress=False)
    assert any("not read: pytorch_model.bin" in note for note in report.notes)


def test_a_converted_directory_is_not_read_as_hugging_face_s(tmp_path: Path) -> None:
    convert(make(tmp_path / "hf"), tmp_path / "ms", progress=False)
    with pytest.raises(FileError, match=r"converted already(.|\n)*huggingface"):
        open_hf(tmp_path / "ms")
