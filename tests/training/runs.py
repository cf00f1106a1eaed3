"""A training so small that its whole course fits a test: one layer, 512 tokens, a page of Shakespeare."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mindport.sources import corpus, resolve
from mindport.training import Callback, TrainConfig
from mindport.training.config import read_config

STEPS, EVERY, KILLED = 8, 3, 5  # steps, those between checkpoints, and the last one before the end of a process
SHAPE = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 512, "n_positions": 24, "n_embd": 12,
    "n_layer": 1, "n_head": 2, "n_inner": 20, "bos_token_id": 0, "eos_token_id": 0, "activation_function": "gelu_new",
}  # fmt: skip


def write(directory: Path) -> Path:
    """A model without weights, a text and a configuration, in a directory; gives the configuration's path."""
    model = directory / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(SHAPE), "utf-8")
    shutil.copy(resolve("tiny-gpt2") / "tokenizer.json", model)
    lines = [json.dumps({"text": line}) for line in corpus().read_text("ascii")[2000:14000].split("\n\n")]
    (directory / "page.jsonl").write_text("\n".join(lines), "ascii")
    (directory / "train.yaml").write_text(
        f"model: model\nstart: scratch\nout: run\nsteps: {STEPS}\nmode: pynative\ndropout: 0.1\n"
        "data: {train: [page.jsonl], tokens: 12, workers: 1, directory: rows, held_out_share: 0.1}\n"
        "batch: {rows: 2, accumulate: 2}\noptimizer: {lr: 1e-2}\nschedule: {warmup: 1}\n"
        f"checkpoints: {{every: {EVERY}, keep: 9}}\n"
        "monitor: {every: 4, evaluate_every: 4, evaluate_rows: 4, tensorboard: false}\n", "utf-8")  # fmt: skip
    return directory / "train.yaml"


def config(path: Path, out: Path, *settings: str) -> TrainConfig:
    """The configuration, its run in `out`."""
    return read_config(path, [f"out={json.dumps(str(out))}", *settings])


class Killed(BaseException):
    """As sudden as a signal that nobody catches: nothing in the trainer is written to handle it."""


class Kill(Callback):
    """End the process's part in it after a step."""

    def __init__(self, step: int = KILLED) -> None:
        self.last = step

    def on_step(self, run, record) -> None:
        if record.step == self.last:
            raise Killed


class Diary(Callback):
    """Writes down every event."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __getattribute__(self, name):
        if name.startswith("on_"):
            return lambda run, *what: self.events.append(name.removeprefix("on_") + f" {run.step}")
        return super().__getattribute__(name)
