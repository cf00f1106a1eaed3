"""What a training is made of, put together for its first step, or for the one after a checkpoint."""

from __future__ import annotations

import contextlib
import functools
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mindport.config import ModelConfig
from mindport.errors import FileError
from mindport.files import read_json, sha256
from mindport.results import plain
from mindport.training.checkpoint import (
    About,
    Checkpoints,
    Run,
    Saved,
    Share,
    check_belongs,
    check_course,
    read_record,
)  # fmt: skip
from mindport.training.checkpoint.checkpoints import BEST
from mindport.training.collective import after_first, gather, total, wait
from mindport.training.config import TrainConfig, check_model
from mindport.training.data import Batch, Batches, Position
from mindport.training.estimate import estimate
from mindport.training.monitor import (
    Evaluation,
    JsonLines,
    Meter,
    Monitor,
    Plan,
    Sampler,
    Sink,
    TensorBoard,
    Watch,
    machine_peak,
    read_metrics,
    terminal,
)  # fmt: skip
from mindport.training.run_directory import RunDirectory
from mindport.training.start import Say, StartModel, described_model, start_model
from mindport.training.step_record import StepRecord
from mindport.training.text import open_text

if TYPE_CHECKING:
    from mindport.model import GPT
    from mindport.model.precision import Precision
    from mindport.ranks import Ranks
    from mindport.training.stepper import Stepper


@dataclass
class Parts:
    """Everything that the loop uses.

    Attributes:
        stepper: around the model.
        batches: the text to learn from, endless.
        position: in it, of the first batch that no finished step has taken.
        held_out: the text that is measured, by all replicas together.
        checkpoints, monitor: of the run; on other ranks than the first the monitor tells nobody.
        sampler: of the prompts; None without samples.
        meter: of all steps of this process.
        about: what every checkpoint says, but for the position.
        step: that the run goes on after; 0 for a beginning.
        warnings: what may keep a resumed run from being the same to the last bit.
        measured: the last measurement on the held-out text.
    """

    stepper: Stepper
    batches: Batches
    position: Position
    held_out: tuple[Batch, ...]
    checkpoints: Checkpoints
    monitor: Monitor
    sampler: Sampler | None
    meter: Meter
    about: About
    step: int = 0
    warnings: tuple[str, ...] = ()
    measured: Evaluation | None = None


def say_aloud(text: str) -> None:
    """To whoever looks on; stdout is for the answer."""
    print(text, file=sys.stderr, flush=True)


def say_nothing(text: str) -> None:
    """Where somebody looks at something else."""


@contextlib.contextmanager
def assemble(
    config: TrainConfig, directory: RunDirectory, sinks: Sequence[Sink] = (), *, ranks: Ranks, resume: bool = False,
    quiet: bool = False,
) -> Iterator[Parts]:  # fmt: skip
    """Everything, in order: what is cheap and may be wrong comes first; closed after the block.

    Of several ranks the first makes the files: the others wait until it has, and then find them made.

    Raises:
        MindPortError: something does not fit.
    """
    from mindport.model.execution import execution

    check_model(config, described_model(config)[1], config.out)
    quiet = quiet or not ranks.is_first
    precision, say = _precision(config), say_nothing if quiet else say_aloud
    with contextlib.ExitStack() as stack:
        stack.enter_context(execution(config.mode))
        with after_first(ranks):
            if resume:
                _check_course(directory, config)
            text = open_text(config, ready=not ranks.is_first)
            start = start_model(config, directory.model, say)
        checkpoints = stack.enter_context(_checkpoints(config, directory, start, ranks))
        about = About(plain(config), text.digest, sha256(start.tokenizer), {}, _device())
        with after_first(ranks):
            saved, warnings = _resumed(checkpoints, config, start, about, say) if resume else (None, ())
            step, position = (saved.step, saved.about.position) if saved else (0, Position())
            warnings += _lost(directory.metrics, step, say)
            files = _files(config, directory, step) if ranks.is_first else []
        speed = _speed(ranks)
        _say_what_it_takes(config, start.config, config.steps - step, speed, say)
        stepper = _stepper(config, start, saved, precision, ranks)
        sampler = _sampler(config, stepper.model, start.tokenizer)
        shown = [] if quiet else [terminal(config.steps, step=step)]
        meters = [Meter(start.config, speed, functools.partial(total, ranks, axis="all")) for _ in range(2)]
        told = (*files, *shown, *sinks) if ranks.is_first else ()
        monitor, measured = _monitor(config, directory, start.config, meters[0], told)
        batches = text.batches("train", config.batch.rows, seed=config.seed, position=position, rank=ranks.dp_rank,
                               ranks=ranks.dp)  # fmt: skip
        yield Parts(
            stepper=stepper, batches=batches, position=batches.position, checkpoints=checkpoints,
            held_out=tuple(text.rows("held_out", config.batch.rows // ranks.dp, limit=config.monitor.evaluate_rows)),
            monitor=stack.enter_context(monitor), sampler=sampler, meter=meters[1], about=about,
            step=step, warnings=warnings, measured=measured,
        )  # fmt: skip


def best_of(checkpoints: Checkpoints) -> Path | None:
    """The one with the lowest held-out loss, where it is kept."""
    pointer = checkpoints.root / BEST
    return checkpoints.root / read_json(pointer)["checkpoint"] if pointer.is_file() else None


@functools.cache
def peak() -> float | None:
    """Of this machine, measured once in a process."""
    return machine_peak()


def _speed(ranks: Ranks) -> float | None:
    """Of all ranks, each measured while the others are: on one machine they share its cores and its memory."""
    wait(ranks)
    mine = peak()
    return None if mine is None else total(ranks, [mine], "all")[0]


def _device() -> str:
    import mindspore as ms

    return ms.get_context("device_target")


def _checkpoints(config: TrainConfig, directory: RunDirectory, start: StartModel, ranks: Ranks) -> Checkpoints:
    told, share = config.checkpoints, None
    word = gather(ranks, np.frombuffer(secrets.token_bytes(8), np.uint8))[0].tobytes().hex()  # the first rank's
    if is_sharded(config, ranks) or not ranks.is_first:
        share = Share(ranks.dp, ranks.tp, ranks.rank, job=word)
    return Checkpoints(directory.checkpoints, start.directory, keep=told.keep, best=told.best,
                       asynchronous=told.asynchronous, share=share)  # fmt: skip


def is_sharded(config: TrainConfig, ranks: Ranks) -> bool:
    """Whether each rank writes its own share; where none has less than all, the first one writes a whole checkpoint."""
    return config.checkpoints.sharded and ranks.tp > 1


def _files(config: TrainConfig, directory: RunDirectory, step: int) -> list[Sink]:
    """What the run leaves of its events."""
    tensorboard = [TensorBoard(directory.tensorboard, step)] if config.monitor.tensorboard else []
    return [JsonLines(directory.metrics, step), *tensorboard]


def _check_course(directory: RunDirectory, config: TrainConfig) -> None:
    """What a checkpoint is going to refuse is said before the text is looked at, whose own answer would mislead."""
    for path in sorted(directory.checkpoints.glob("step-*"), reverse=True):
        with contextlib.suppress(FileError):  # a damaged one; it is told when all of it is read
            check_course(path, read_record(path).about.config, config)
            return


def _resumed(
    checkpoints: Checkpoints, config: TrainConfig, start: StartModel, about: About, say: Say
) -> tuple[Saved | None, tuple[str, ...]]:
    """The checkpoint to go on from, if there is one, and what may keep it from being exact; both are said."""
    saved = _newest(checkpoints, say)
    if saved is None:
        say("there is no checkpoint to resume from: the run begins")
        return None, ()
    warnings = check_belongs(saved, Run(config, start.config, about.data, about.tokenizer, about.device))
    checkpoints.cut(saved.step)
    left = config.steps - saved.step
    say(f"resuming after step {saved.step}, from {saved.path}" if left > 0 else f"all {saved.step} steps were taken")
    for warning in warnings:
        say(f"warning: {warning}")
    return saved, warnings


def _lost(metrics: Path, step: int, say: Say) -> tuple[str, ...]:
    """A warning where the record of the steps before is not whole, for the report is made of it."""
    events = read_metrics(metrics) if step and metrics.exists() else []
    count = len({event.step for event in events if isinstance(event, StepRecord) and event.step <= step})
    if count == step:
        return ()
    warning = f"{metrics.name} has {count} of the {step} steps that were taken: the report lacks the others"
    say(f"warning: {warning}")
    return (warning,)


def _newest(checkpoints: Checkpoints, say: Say) -> Saved | None:
    saved = checkpoints.newest()
    for damaged, error in checkpoints.refused.items():
        say(f"warning: {damaged.name} is passed over: {error.what} ({error.where})")
    return saved


def _say_what_it_takes(config: TrainConfig, model: ModelConfig, steps: int, speed: float | None, say: Say) -> None:
    takes = estimate(config, model)
    for line in (takes.text(), takes.time(steps, speed)):
        if line:
            say(line)


def _precision(config: TrainConfig) -> Precision:
    from mindport.model.precision import Precision

    return Precision(config.precision.level, config.precision.dtype)


def _stepper(
    config: TrainConfig, start: StartModel, saved: Saved | None, precision: Precision, ranks: Ranks
) -> Stepper:  # fmt: skip
    from mindport.training.stepper import Stepper

    stepper = Stepper(_model(config, start, saved, precision, ranks), config)
    if saved:
        stepper.restore({name: saved.share(name, ranks) for name in saved.state}, step=saved.step)
    return stepper


def _model(
    config: TrainConfig, start: StartModel, saved: Saved | None, precision: Precision, ranks: Ranks
) -> GPT:  # fmt: skip
    """The model with the weights that the next step finds: they are there from birth, nothing is overwritten."""
    from mindport.model import GPT, load_model
    from mindport.model.dropout import with_dropout
    from mindport.model.parameters import fresh

    if saved is None and config.start == "pretrained":
        model = load_model(start.directory, precision=precision, dropout=config.dropout, seed=config.seed, ranks=ranks)
    else:
        shape = with_dropout(saved.model if saved else start.config, config.dropout)
        source = saved.source if saved else fresh(shape, config.seed)
        model = GPT(shape, source, precision=precision, seed=config.seed, ranks=ranks)
    if config.recompute:
        model.recompute_blocks()
    return model


def _sampler(config: TrainConfig, model: GPT, tokenizer: Path) -> Sampler | None:
    told = config.monitor
    return Sampler(model, tokenizer, told.prompts, told.sample_tokens) if told.sample_every else None


def _monitor(
    config: TrainConfig, directory: RunDirectory, model: ModelConfig, meter: Meter, sinks: Sequence[Sink]
) -> tuple[Monitor, Evaluation | None]:
    """The monitor, which remembers the steps that the run goes on after; and the last measurement of then."""
    scaled = config.precision.level != "O0" and config.precision.dtype == "float16"
    watch = Watch(Plan(config.start, model.vocab_size, config.steps, config.schedule.warmup, loss_scale=scaled))
    measured = None
    for event in read_metrics(directory.metrics):
        if isinstance(event, StepRecord):
            watch.history.add(event, ())
        elif isinstance(event, Evaluation):
            watch.history.evaluate(event)
            measured = event
    return Monitor(sinks, meter, watch, every=config.monitor.every), measured
