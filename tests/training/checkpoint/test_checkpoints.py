"""The newest few and the best stay, in a thread or not, and nothing that fails goes unsaid."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.errors import FileError, UsageError
from mindport.training.checkpoint import Checkpoints, Snapshot, read_checkpoint
from mindport.training.checkpoint import checkpoints as room
from mindport.training.checkpoint.write import write_checkpoint
from tests.training.checkpoint.runs import same, snapshot


def steps(checkpoints: Checkpoints) -> list[int]:
    checkpoints.wait()
    return [room.step_of(path) for path in checkpoints.all()]


def pointer(root: Path) -> int | None:
    path = root / "best.json"
    return json.loads(path.read_text())["step"] if path.exists() else None


LOSSES = st.one_of(st.none(), st.just(math.nan), st.sampled_from([1.0, 2.0, 3.0, math.inf]))


@settings(max_examples=5)
@given(st.lists(LOSSES, min_size=1, max_size=6), st.integers(1, 3), st.booleans(), st.booleans())
def test_the_newest_and_the_best_stay(
    source: Path, losses: list[float | None], keep: int, best: bool, asynchronous: bool
) -> None:
    with tempfile.TemporaryDirectory() as place:
        with Checkpoints(place, source, keep=keep, best=best, asynchronous=asynchronous) as checkpoints:
            for step, loss in enumerate(losses, 1):
                checkpoints.save(snapshot(source, step, state={}), loss)
            found = steps(checkpoints)
        numbers = {step: loss for step, loss in enumerate(losses, 1) if loss is not None and math.isfinite(loss)}
        lowest = min(numbers, key=lambda step: (numbers[step], step)) if numbers and best else None
        newest = range(max(1, len(losses) - keep + 1), len(losses) + 1)
        assert found == sorted({*newest, *([lowest] if lowest else [])})
        assert pointer(Path(place)) == lowest
        assert {path.name for path in Path(place).iterdir()} - {"best.json"} == {f"step-{n:08d}" for n in found}


def test_best_json_is_made_right_when_a_process_died_before_it_could(source: Path, tmp_path: Path) -> None:
    with Checkpoints(tmp_path, source, keep=5) as checkpoints:
        for step, loss in ((1, 3.0), (2, 2.0)):
            checkpoints.save(snapshot(source, step), loss)
    (tmp_path / "best.json").write_text('{"checkpoint": "step-00000001", "step": 1, "loss": 3.0}')
    with Checkpoints(tmp_path, source):
        assert pointer(tmp_path) == 2
    with Checkpoints(tmp_path, source, best=False):
        assert pointer(tmp_path) is None


def test_what_is_saved_is_what_was_there_at_the_call(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Event()
    monkeypatch.setattr(room, "write_checkpoint", lambda *a: (begin.wait(60), write_checkpoint(*a)))
    meant, given = snapshot(source, 1), snapshot(source, 1)
    with Checkpoints(tmp_path, source) as checkpoints:
        path = checkpoints.save(given).path
        for x in (*given.weights.values(), *given.state.values()):
            x[...] = 0  # the next step, in place
        assert not path.exists()
        begin.set()
    found = read_checkpoint(path)
    assert same(found.weights, meant.weights) and same(found.state, meant.state)


def test_arrays_are_asked_for_once_and_by_the_thread_that_saves(source: Path, tmp_path: Path) -> None:
    right, asked = snapshot(source, 1), []

    class Device(dict):  # MindSpore is not to be used from several threads
        def __getitem__(self, name: str) -> np.ndarray:
            asked.append((name, threading.current_thread()))
            return super().__getitem__(name)

        def items(self):
            return ((name, self[name]) for name in self)

    with Checkpoints(tmp_path, source) as checkpoints:
        checkpoints.save(Snapshot(1, Device(right.weights), Device(right.state), right.about))
    assert len(asked) == len(right.weights) + len(right.state)
    assert {thread for _, thread in asked} == {threading.current_thread()}


def test_never_two_writes_at_once_and_none_is_lost(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, seen = threading.Lock(), []

    def write(*arguments: object) -> None:
        assert alone.acquire(blocking=False)
        seen.append(threading.current_thread() is threading.main_thread())
        write_checkpoint(*arguments)
        alone.release()

    monkeypatch.setattr(room, "write_checkpoint", write)
    with Checkpoints(tmp_path, source, keep=9) as checkpoints:
        stalls = [checkpoints.save(snapshot(source, step, state={})) for step in range(1, 6)]
        assert steps(checkpoints) == [1, 2, 3, 4, 5]
    assert seen == [False] * 5 and sum(stall.waited for stall in stalls) > 0


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_full_disk_is_said_and_leaves_the_one_before(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asynchronous: bool
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Checkpoints(tmp_path, source, keep=1, asynchronous=asynchronous) as checkpoints:
        checkpoints.save(snapshot(source, 1), 2.0)
        checkpoints.wait()
        with monkeypatch.context() as patch, pytest.raises(FileError, match=r"nothing was kept(.|\n)*free some space"):
            patch.setattr("mindport.training.checkpoint.write.write_manifest", full)
            checkpoints.save(snapshot(source, 2), 1.0)
            checkpoints.wait()
        assert steps(checkpoints) == [1] and pointer(tmp_path) == 1
        assert checkpoints.newest().step == 1
        checkpoints.save(snapshot(source, 3))  # said once; there is room again
        assert steps(checkpoints) == [1, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.json", "step-00000001", "step-00000003"]


def test_the_error_of_a_write_comes_with_the_next_save(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise FileError("the disk is gone")

    with Checkpoints(tmp_path, source) as checkpoints:
        with monkeypatch.context() as patch:
            patch.setattr(room, "write_checkpoint", broken)
            checkpoints.save(snapshot(source, 1))
            with pytest.raises(FileError, match="the disk is gone"):
                checkpoints.save(snapshot(source, 2))
        assert steps(checkpoints) == []


def test_a_newer_one_that_is_damaged_is_passed_over_and_told(source: Path, tmp_path: Path) -> None:
    with Checkpoints(tmp_path, source, keep=3) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(snapshot(source, step))
        _, second, third = (path for _ in [checkpoints.wait()] for path in checkpoints.all())
        (third / "training.safetensors").unlink()
        assert checkpoints.newest().path == second
        assert list(checkpoints.refused) == [third] and "missing" in checkpoints.refused[third].what
        checkpoints.save(snapshot(source, 3))  # takes the place of what is none
        assert checkpoints.newest().path == third and checkpoints.refused == {}


def test_one_under_the_name_of_another_step_is_not_resumed_from_and_then_cut(source: Path, saved: Path) -> None:
    other = saved.rename(saved.with_name("step-00000099"))
    with Checkpoints(saved.parent, source) as checkpoints, pytest.raises(FileError, match="name is not its step"):
        checkpoints.newest()
    assert other.is_dir()


def test_where_none_is_whole_it_is_no_new_start(source: Path, saved: Path) -> None:
    (saved / "model.safetensors").write_bytes(b"")
    with Checkpoints(saved.parent, source) as checkpoints, pytest.raises(FileError, match="none of the 1 checkpoints"):
        checkpoints.newest()


def test_a_step_that_is_there_is_not_written_over(source: Path, saved: Path) -> None:
    with Checkpoints(saved.parent, source) as checkpoints:
        with pytest.raises(UsageError, match=r"has a checkpoint already(.|\n)*cut"):
            checkpoints.save(snapshot(source, 5))
        assert checkpoints.cut(4) == (saved,) and checkpoints.newest() is None and pointer(saved.parent) is None
        checkpoints.save(snapshot(source, 5))


def test_the_best_is_told_and_its_pointer_heals(source: Path, tmp_path: Path) -> None:
    with Checkpoints(tmp_path, source, keep=1) as checkpoints:
        assert checkpoints.lowest() is None and checkpoints.newest() is None
        checkpoints.save(snapshot(source, 1), 2.0)
        checkpoints.save(snapshot(source, 2), 2.0)
        checkpoints.wait()
        assert checkpoints.lowest() == (tmp_path / "step-00000001", 2.0)
        assert checkpoints.newest().step == 2
    (tmp_path / "best.json").write_text("{")
    with Checkpoints(tmp_path, source):
        assert pointer(tmp_path) == 1


def test_an_error_of_the_training_is_not_hidden_by_one_of_the_thread(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise FileError("the disk is gone")

    monkeypatch.setattr(room, "write_checkpoint", broken)
    with pytest.raises(ZeroDivisionError), Checkpoints(tmp_path, source) as checkpoints:
        checkpoints.save(snapshot(source, 1))
        1 / 0  # noqa: B018
    assert capsys.readouterr().err == "a checkpoint was not written either: the disk is gone\n"
    with pytest.raises(FileError, match="the disk is gone"), Checkpoints(tmp_path, source) as checkpoints:
        checkpoints.save(snapshot(source, 1))


def test_an_old_one_that_cannot_be_removed_is_said(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(errno.EACCES, "Permission denied")

    with Checkpoints(tmp_path, source, keep=1, asynchronous=False) as checkpoints:
        checkpoints.save(snapshot(source, 1))
        monkeypatch.setattr(shutil, "rmtree", refuse)
        with pytest.raises(FileError, match="cannot be removed"):
            checkpoints.save(snapshot(source, 2))
        assert steps(checkpoints) == [2]


def test_what_others_keep_there_stays(source: Path, tmp_path: Path) -> None:
    for name in ("step-1", "step-00000001.copy", "notes"):
        (tmp_path / name).mkdir()
    with Checkpoints(tmp_path, source, keep=1) as checkpoints:
        for step in (1, 2):
            checkpoints.save(snapshot(source, step))
        assert steps(checkpoints) == [2]
    assert {"step-1", "step-00000001.copy", "notes"} <= {path.name for path in tmp_path.iterdir()}


def test_arguments_that_make_no_sense(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="one checkpoint at least"):
        Checkpoints(tmp_path, source, keep=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="need a directory"):
        Checkpoints(tmp_path / "file", source)
    with Checkpoints(tmp_path, source) as checkpoints:
        for step in (-1, 1.0, True):
            with pytest.raises(UsageError, match="of a number of steps"):
                checkpoints.save(dataclasses.replace(snapshot(source, 1), step=step))
        for position in ({"why": len}, {1: 2}):
            with pytest.raises(UsageError, match=r"JSON cannot hold(.|\n)*position"):
                checkpoints.save(snapshot(source, 1, position=position))
    with pytest.raises(FileError, match=r"no config\.json"):
        Checkpoints(tmp_path, tmp_path / "nothing")
    other = shutil.copytree(source, tmp_path / "other")
    manifest = json.loads((other / "mindport.json").read_text())
    (other / "mindport.json").write_text(json.dumps({**manifest, "target": "mindformers-llama"}))
    with pytest.raises(FileError, match="under the names of mindformers-llama"):
        Checkpoints(tmp_path, other)
