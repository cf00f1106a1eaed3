"""What surrounds the loop: the model that is found, what a training takes, signals, the moments of kills."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mindport.config.schema import shapes
from mindport.errors import FileError, UsageError
from mindport.sources import resolve
from mindport.training import StopAt, estimate
from mindport.training.callbacks import Callbacks
from mindport.training.config import BatchConfig, CheckpointConfig, TrainConfig
from mindport.training.interrupt import wishes
from mindport.training.kill_moments import is_writing, last_step, moments, newest, writer
from mindport.training.kill_test import kill_test
from mindport.training.monitor import JsonLines
from mindport.training.run_directory import RunDirectory
from mindport.training.start import described_model, start_model
from mindport.weights import convert, load
from mindport.weights.manifest import read_manifest, write_manifest
from tests.training.runs import write


def quiet(text: str) -> None:
    """Nobody looks on."""


@pytest.fixture
def source(tmp_path) -> Path:
    """A Hugging Face directory that may be changed."""
    return Path(shutil.copytree(resolve("tiny-gpt2"), tmp_path / "hf"))


def test_a_model_is_converted_once_and_again_when_it_changed(source, tmp_path):
    config, told = TrainConfig(model=str(source)), []
    first = start_model(config, tmp_path / "model", told.append)
    assert (
        first.directory == tmp_path / "model"
        and first.tokenizer.read_bytes() == (source / "tokenizer.json").read_bytes()
    )
    assert start_model(config, tmp_path / "model", told.append) == first and len(told) == 1
    weights = load_file(source / "model.safetensors")
    name = next(name for name in weights if name.endswith("wte.weight"))
    save_file({**weights, name: weights[name] + np.float32(1)}, source / "model.safetensors", {"format": "pt"})
    start_model(config, tmp_path / "model", told.append)
    assert len(told) == 2 and np.array_equal(load(tmp_path / "model")["embed.weight"], weights[name] + np.float32(1))
    assert (
        start_model(TrainConfig(model=str(first.directory)), tmp_path / "x", told.append).directory == first.directory
    )
    assert len(told) == 2


def test_a_conversion_in_another_precision_is_none_and_trained_weights_are_not_written_over(source, tmp_path):
    config, told, path = TrainConfig(model=str(source)), [], tmp_path / "model"
    convert(source, path, dtype="float16", progress=False)
    start_model(config, path, told.append)
    manifest = read_manifest(path)
    assert len(told) == 1 and manifest.dtype == "keep"
    write_manifest(path, dataclasses.replace(manifest, steps=3))
    with pytest.raises(FileError, match="3 steps"):
        start_model(config, path, told.append)
    assert read_manifest(path).steps == 3


def test_a_start_from_scratch_needs_no_weights_and_a_pretrained_one_does(tmp_path):
    model = write(tmp_path / "t").parent / "model"
    config = TrainConfig(model=str(model), start="scratch")
    assert start_model(config, tmp_path / "model", quiet).directory == model
    with pytest.raises(FileError):
        start_model(dataclasses.replace(config, start="pretrained"), tmp_path / "model", quiet)
    (model / "tokenizer.json").unlink()
    with pytest.raises(FileError, match="tokenizer"):
        start_model(config, tmp_path / "model", quiet)


def test_the_estimate_counts_what_is_kept(monkeypatch):
    config = TrainConfig(model="tiny-gpt2", checkpoints=CheckpointConfig(asynchronous=False))
    model = described_model(config)[1]
    count = sum(int(np.prod(shape)) for shape in shapes(model).values())
    plain = estimate.estimate(config, model)
    assert (plain.parameters, plain.weights, plain.checkpoint) == (count, 16 * count, 0)
    assert estimate.estimate(TrainConfig(), model).checkpoint == 12 * count
    more = estimate.estimate(dataclasses.replace(config, batch=BatchConfig(rows=16, accumulate=3)), model)
    assert (more.weights, more.activations) == (20 * count, 2 * plain.activations)
    assert more.step_flops == pytest.approx(6 * plain.step_flops)
    assert estimate.estimate(dataclasses.replace(config, recompute=True), model).activations < plain.activations
    monkeypatch.setattr(estimate, "_free", lambda: plain.bytes - 1)
    assert "MORE THAN THERE IS" in estimate.estimate(config, model).text() and "MORE" not in plain.text()
    assert dataclasses.replace(plain, step_flops=1e9).time(90, 1.0).startswith("time: at least 1:30 for 90 steps")
    assert plain.time(90, None) == ""


def test_a_signal_is_a_wish_and_a_second_one_an_order():
    before = signal.getsignal(signal.SIGINT)
    with wishes() as wish:
        assert wish.signal is None
        signal.raise_signal(signal.SIGINT)
        assert wish.signal is signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) == before


def test_in_another_thread_signals_stay_as_they_are():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with wishes():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize("numbers", [{"loss": float("nan")}, {"loss": 1.0, "steps": 0}])
def test_a_callback_that_makes_no_sense_stops(numbers):
    with pytest.raises(UsageError, match="stop"):
        StopAt(**numbers)
    with pytest.raises(UsageError, match="StopAt"):
        Callbacks([StopAt])  # the class, not an instance


def test_the_moments_of_kills_follow_from_the_seed():
    named = [[moment.aimed for moment in moments(20, 60, 5.0, 0.1, random.Random(seed))] for seed in (0, 0, 1)]
    assert named[0] == named[1] != named[2] and len(named[0]) == 20
    kinds = [name.split()[0] for name in named[0]]
    assert [kinds.count(kind) for kind in ("the", "step", "a")] == [6, 10, 4]  # the text and the start; steps; writes
    assert len(moments(1, 60, 5.0, 0.1, random.Random(0))) == 1


def test_a_moment_is_seen_in_the_directory(tmp_path):
    run = RunDirectory(tmp_path)
    assert (last_step(run), newest(run), is_writing(run)) == (0, 0, False)
    lines = [json.dumps({"event": event, "step": step}) for event, step in (("step", 3), ("pace", 9), ("step", 4))]
    run.metrics.write_text("\n".join(lines) + '\n{"event": "step", "st', "utf-8")
    for name in ("step-00000003", "step-00000006", ".step-00000009.x.part", ".step-00000001.x.removed"):
        (run.checkpoints / name).mkdir(parents=True)
    assert (last_step(run), newest(run), is_writing(run)) == (4, 6, True)
    stepping, writing, starting = (
        next(m for m in moments(20, 8, 99.0, 0.3, random.Random(0)) if m.aimed.startswith(kind))
        for kind in ("step", "a write", "the start")
    )
    assert not starting.has_come(run, 0.1, True) and starting.has_come(run, 99.0, False)
    assert not writing.has_come(run, 9.0, False) and writing.has_come(run, 9.0, True)
    assert not stepping.has_come(run, 9.0, False) and not stepping.has_come(
        run, 9.0, True
    )  # step 4 is of an earlier one
    with run.metrics.open("a", encoding="utf-8") as file:
        file.write('\n{"event": "step", "step": 5}\n')
    assert not stepping.has_come(run, 9.0, True) and stepping.has_come(run, 9.5, True)
    assert starting.has_come(run, 0.1, True)  # the first step is the end of the start
    inode = writer(run)
    JsonLines(run.metrics).close()  # as each process begins
    assert writer(run) != inode and writer(RunDirectory(tmp_path / "x")) == 0


def test_a_kill_test_that_could_show_nothing_is_refused(tmp_path):
    path = write(tmp_path / "t")
    with pytest.raises(UsageError, match="nothing could be resumed"):
        kill_test(path, tmp_path / "kills", settings=["checkpoints.every=0"])
    (tmp_path / "kills" / "killed" / "checkpoints").mkdir(parents=True)
    with pytest.raises(FileError, match="checkpoints"):
        kill_test(path, tmp_path / "kills")
