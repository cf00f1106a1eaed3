"""`mindport train CONFIG --beside-torch`: our training, then the same one in torch, and both curves held together.

    ours     the trainer as it is, with a callback that keeps every batch, every step and the measurements
    torch    a process of its own: transformers from the same weights, on those batches, by the same recipe

The two run one after the other, each alone on the machine. Their speeds are of two moments therefore; `mindport bench
train` times both in turn.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mindport import sources
from mindport.config import ModelConfig
from mindport.config.schema import count
from mindport.errors import UsageError
from mindport.files import write_json
from mindport.machine import versions
from mindport.measure import memory
from mindport.parity.curves import CurveReport, Ran
from mindport.parity.exchange import Fed, Rows, RunRecipe, read_answer, threads, write_fed, write_recipe
from mindport.parity.launch import check_frameworks, run_beside
from mindport.results import plain
from mindport.training.callbacks import Callback
from mindport.training.checkpoint import About, Snapshot
from mindport.training.checkpoint.origin import read_origin
from mindport.training.checkpoint.write import take, write_checkpoint
from mindport.training.config import TrainConfig
from mindport.training.data.batch import Batch
from mindport.training.gathered import Arrays
from mindport.training.monitor import Evaluation
from mindport.training.run_directory import RunDirectory
from mindport.training.start import described_model
from mindport.training.step_record import StepRecord
from mindport.training.train_report import TrainReport
from mindport.training.trainer import Trainer
from mindport.weights import convert
from mindport.weights.manifest import NAME as MANIFEST

TINY = 2_000_000  # parameters of a model for which float64 costs little


class Recorder(Callback):
    """Keeps what a training was fed and what came of it.

    Args:
        aside: a folder, for the weights of a start from scratch.
    """

    def __init__(self, aside: Path) -> None:
        self.aside = aside
        self.fed: list[list[Rows]] = []
        self.records: list[StepRecord] = []
        self.held_out: list[float] = []
        self.measured: list[Rows] = []
        self.start: Path | None = None
        self._saved = False
        importlib.import_module("mindport.model")  # MindSpore itself is no memory of the training
        memory.reset_peak()
        self.memory = (memory.peak(), memory.peak())

    def on_start(self, run: Trainer) -> None:
        """The weights, before they move."""
        self.start = start_directory(run.config, Arrays(run.stepper.weights), self.aside)
        self.measured = _rows(run.held_out)

    def on_batch(self, run: Trainer, batches: Sequence[Batch]) -> None:
        """What a step takes."""
        self.fed.append(_rows(batches))

    def on_step(self, run: Trainer, record: StepRecord) -> None:
        """What it did. A checkpoint takes memory of its own, which torch's run does without: until then it counts."""
        self.records.append(record)
        if not self._saved:
            self.memory = (self.memory[0], memory.peak())

    def on_checkpoint(self, run: Trainer, step: int) -> None:
        """From here on memory is no longer the training's alone."""
        self._saved = True

    def on_evaluation(self, run: Trainer, evaluation: Evaluation) -> None:
        """The first is from before, the last from after."""
        self.held_out = [*self.held_out[:1], evaluation.loss]

    def ran(self) -> Ran:
        """Our side of the report."""
        columns = {name: tuple(getattr(record, name) for record in self.records)
                   for name in ("loss", "norm", "lr", "counted", "tokens", "seconds")}  # fmt: skip
        return Ran(who="mindport, float32", **columns, held_out=tuple(self.held_out), memory=self.memory,
                   threads=threads(), versions=versions())  # fmt: skip


def beside_torch(
    config: TrainConfig, *, overwrite: bool = False, exact: bool | None = None, progress: bool = True
) -> CurveReport | TrainReport:
    """Train by a configuration, then do the same in transformers, and compare every step.

    Args:
        config: of the training; float32, without dropout. The answer is left in its directory, as beside.json.
        overwrite: remove an earlier run there first.
        exact: torch once more in float64, to see what float32 costs it; None: where the model is tiny.
        progress: say the phases on stderr.

    Returns:
        The comparison; of a training that a signal ended, its own report.

    Raises:
        UsageError: the two could not be equal: dropout, or another precision.
        BackendError: a framework is missing or refuses.
    """
    check_frameworks()
    _, model = described_model(config)
    check_comparable(config, model)
    with tempfile.TemporaryDirectory(prefix="mindport-beside-") as folder:
        aside = Path(folder)
        recorder = Recorder(aside)
        trained = Trainer(config, callbacks=(recorder,)).run(overwrite=overwrite)
        if trained.signal is not None:
            return trained
        report = compare_with_torch(recorder, config, model, aside, exact, progress)
    write_json(RunDirectory(config.out).beside, plain(report.as_dict()))
    return report


def compare_with_torch(
    recorder: Recorder, config: TrainConfig, model: ModelConfig, aside: Path, exact: bool | None = None,
    progress: bool = True,
) -> CurveReport:  # fmt: skip
    """Do in transformers what was recorded, and hold the two together.

    Args:
        recorder: of a training from its first step on.
        config: of that training.
        model: that was trained.
        aside: a folder for what the process is given.
        exact: torch once more in float64; None: where the model is tiny.
        progress: pass the process's messages on to stderr.

    Raises:
        BackendError: the process failed.
    """
    assert recorder.start is not None  # every training begins with on_start
    told, measured = recipe_of(config), recorder.measured
    exact = count(model) <= TINY if exact is None else exact
    if progress:
        print(f"beside torch: {len(recorder.fed)} steps in transformers{', and in float64' * exact}", file=sys.stderr)
    answer = run_beside(
        recorder.start, aside / "answer.json", batches=write_fed(aside / "fed.npz", Fed(recorder.fed, measured)),
        recipe=write_recipe(aside / "recipe.json", told), threads=threads(), exact=exact, progress=progress,
        padded_vocab=model.padded_vocab,
    )  # fmt: skip
    reference, exactly, notes = read_answer(answer)
    return CurveReport(
        model=f"{config.model}, {config.start}", ours=recorder.ran(), reference=reference, exact=exactly,
        recipe=told.as_dict(), accumulate=config.batch.accumulate, notes=notes,
    )  # fmt: skip


def check_comparable(config: TrainConfig, model: ModelConfig) -> None:
    """Stop before the work where the two could not be equal.

    Raises:
        UsageError: several processes, dropout, or another precision than float32.
    """
    if (processes := config.parallel.dp * config.parallel.tp) > 1:
        raise UsageError("torch's training beside ours is one process, and ours has to be", where="parallel",
                         got=f"{processes} processes", expected="dp 1, tp 1",
                         do="train in one process: parallel.dp=1, parallel.tp=1")  # fmt: skip
    drawn = max(model.embd_pdrop, model.attn_pdrop, model.resid_pdrop) if config.dropout is None else config.dropout
    if drawn:
        raise UsageError("two frameworks never draw the same dropout", where="dropout", got=drawn, expected=0,
                         do="--set dropout=0")  # fmt: skip
    if config.precision.level != "O0":
        raise UsageError("the curves are compared in float32", where="precision.level", got=config.precision.level,
                         expected="O0", do="--set precision.level=O0")  # fmt: skip


def recipe_of(config: TrainConfig) -> RunRecipe:
    """What a configuration says of optimizer and schedule."""
    told = config.optimizer
    return RunRecipe(
        steps=config.steps, lr=told.lr, betas=told.betas, eps=told.eps, weight_decay=told.weight_decay,
        max_norm=told.max_norm, shape=config.schedule.shape, warmup=config.schedule.warmup, no_decay=told.no_decay,
    )  # fmt: skip


def start_directory(config: TrainConfig, weights: Mapping[str, np.ndarray], aside: Path) -> Path:
    """The Hugging Face directory of the weights that a training begins with.

    The one that was named, where it is one: then the conversion is proved along with the training. Else it is made,
    of a MindPort directory, or of the random weights themselves.
    """
    source = sources.resolve(config.model)
    pretrained = config.start == "pretrained"
    if pretrained and not (source / MANIFEST).is_file():
        return source
    for left in (aside / "first", aside / "start"):  # of an earlier training
        shutil.rmtree(left, ignore_errors=True)
    if not pretrained:
        origin, first = read_origin(source), aside / "first"
        snapshot = Snapshot(0, weights, {}, About({}, "", "", {}))
        write_checkpoint(first, take(snapshot, None, origin.model), origin)
        source = first
    convert(source, aside / "start", to="huggingface", progress=False)
    return aside / "start"


def _rows(batches: Sequence[Batch]) -> list[Rows]:
    return [(batch.ids.copy(), batch.labels.copy()) for batch in batches]
