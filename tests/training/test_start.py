"""What surrounds the loop: the model that is found, what a training takes, signals."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import threading
from collections.abc import Iterator
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
    monkeypatch.setattr(estimate, "available_memory", lambda: plain.bytes - 1)
    assert "MORE THAN THERE IS" in estimate.estimate(config, model).text() and "MORE" not in plain.text()
    assert dataclasses.replace(plain, step_flops=1e9).time(90, 1.0).startswith("time: at least 1:30 for 90 steps")
    assert plain.time(90, None) == ""


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C is heard, also where the tests run in the background of a shell that has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_is_a_wish_and_a_second_one_an_order(heard):
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
