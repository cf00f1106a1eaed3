"""A checkpoint comes back as it went; one that was torn or edited does not come back at all."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from mindport.errors import FileError, MindPortError, UsageError
from mindport.training.checkpoint import Checkpoints, Snapshot, read_checkpoint
from mindport.training.checkpoint.record import here, read_record
from mindport.weights import load
from tests.training.checkpoint.runs import converted, same, snapshot

FILES = ("chat_template.jinja", "config.json", "mindport.json", "model.safetensors", "tokenizer.json", "training.json",
         "training.safetensors")  # fmt: skip


def test_everything_comes_back(source: Path, saved: Path) -> None:
    meant, found = snapshot(source, 5), read_checkpoint(saved)
    assert same(found.weights, meant.weights) and same(found.state, meant.state)
    assert (found.step, found.loss, found.about) == (5, 2.5, meant.about)
    assert found.record.versions == here() and found.record.versions["mindspore"][:1].isdigit()
    assert found.model == dataclasses.replace(load(source).config, dtype="float32")


def test_what_is_said_of_a_training_comes_back_whatever_it_is(source: Path, tmp_path: Path) -> None:
    position = {"norms": [np.float32(1.5), math.inf, -math.inf], "last": math.nan, "steps": (1, 2), "said": None}
    with Checkpoints(tmp_path, source) as checkpoints:
        path = checkpoints.save(snapshot(source, 1, position=position)).path
    found = read_checkpoint(path).about.position
    assert math.isnan(found.pop("last"))
    assert found == {"norms": [1.5, math.inf, -math.inf], "steps": [1, 2], "said": None}


def test_it_is_a_mindport_directory_with_its_companions(source: Path, saved: Path) -> None:
    assert tuple(sorted(path.name for path in saved.iterdir())) == FILES
    assert (saved / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    assert json.loads((saved / "config.json").read_text())["dtype"] == "float32"
    weights = load(saved)
    assert weights.manifest.steps == 5 and weights.manifest.dtype == "float32"
    assert same(weights, snapshot(source, 5).weights)


def test_large_weights_lie_in_shards(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindport.weights.writers.SHARD_BYTES", 20_000)
    with Checkpoints(tmp_path, source) as checkpoints:
        path = checkpoints.save(snapshot(source, 1)).path
    assert len(list(path.glob("model-*.safetensors"))) > 1 and len(load(path)) == 30
    (path / "model.safetensors.index.json").unlink()
    with pytest.raises(FileError, match=r"missing(.|\n)*index\.json"):
        read_checkpoint(path)


def test_a_model_from_scratch_needs_a_configuration_only(tmp_path: Path) -> None:
    made = converted(tmp_path / "made")
    (tmp_path / "new").mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(tmp_path / "made/hf" / name, tmp_path / "new")
    with Checkpoints(tmp_path / "checkpoints", tmp_path / "new") as checkpoints:
        path = checkpoints.save(snapshot(made, 3)).path
        shutil.rmtree(tmp_path / "new")  # what it needs of it, it has
        checkpoints.save(snapshot(made, 4))
    assert (path / "tokenizer.json").is_file()
    assert load(path).manifest.source is None and same(load(path), snapshot(made, 3).weights)


@pytest.mark.parametrize("name", FILES)
def test_one_flipped_bit_in_any_file_is_refused(saved: Path, name: str) -> None:
    data, draw = (saved / name).read_bytes(), random.Random(name)
    places = draw.sample(range(8 * len(data)), min(8 * len(data), 40))
    for place in places:
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        (saved / name).write_bytes(flipped)
        with pytest.raises(FileError):
            read_checkpoint(saved)
    (saved / name).write_bytes(data)
    assert read_checkpoint(saved).step == 5


def test_no_byte_of_the_record_is_free(saved: Path) -> None:
    path = saved / "training.json"
    data = path.read_bytes()
    for place in range(0, len(data), 97):
        for other in (data[:place] + b" " + data[place:], data[:place] + data[place + 1 :]):
            path.write_bytes(other)
            with pytest.raises(FileError):
                read_record(saved)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("how", ["gone", "torn", "longer"])
def test_a_file_that_is_not_whole_is_refused(saved: Path, name: str, how: str) -> None:
    data = (saved / name).read_bytes()
    if how == "gone":
        (saved / name).unlink()
    else:
        (saved / name).write_bytes(data[: len(data) // 2] if how == "torn" else data + b"\0")
    with pytest.raises(MindPortError, match=f"{name}|no training.json"):
        read_checkpoint(saved)


def test_a_record_with_its_seal_made_new_is_held_to_the_files(saved: Path) -> None:
    """Who edits it and seals it again still has to find fields of the right kind."""
    from mindport.training.checkpoint.record import _sealed

    content = json.loads((saved / "training.json").read_text())
    del content["seal"]
    for change in ({"step": "5"}, {"loss": "low"}, {"files": {"../x": {"sha256": "", "bytes": 1}}}, {"more": 1},
                   {"about": {}}, {"format": 2}):  # fmt: skip
        (saved / "training.json").write_text(_sealed({**content, **change}))
        with pytest.raises(FileError, match=r"of this version|another format"):
            read_checkpoint(saved)


def test_other_directories_are_no_checkpoints(source: Path, tmp_path: Path) -> None:
    for place in (source, tmp_path / "nothing"):
        with pytest.raises(FileError, match="not a checkpoint of a training"):
            read_checkpoint(place)


def test_a_snapshot_of_another_model_is_refused(source: Path, tmp_path: Path) -> None:
    right = snapshot(source, 1)
    name = next(iter(right.weights))
    wrong = {
        "not the parameters": {**right.weights, "more": np.zeros(3, np.float32)},
        "not the parameters ": {key: x for key, x in right.weights.items() if key != name},
        "another shape or precision": {**right.weights, name: right.weights[name].astype(np.float16)},
        "another shape or precision ": {**right.weights, name: right.weights[name][:-1]},
    }
    with Checkpoints(tmp_path / "checkpoints", source) as checkpoints:
        for what, weights in wrong.items():
            with pytest.raises(UsageError, match=what.strip()):
                checkpoints.save(Snapshot(1, weights, {}, right.about))
        assert checkpoints.all() == () and checkpoints.newest() is None
