"""Start the same training under each layout, and read what it left."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from mindport.errors import UsageError
from mindport.mindformers import Layout, parse_layout
from mindport.parallel.fits import check_layout
from mindport.parallel.launch import call
from mindport.parallel.layouts.parity import HOPELESS, LIMIT, LayoutParity, LayoutRun, ProcessShare, apart
from mindport.training.config import TrainConfig, write_config
from mindport.training.monitor import Evaluation, read_metrics
from mindport.training.run_directory import RunDirectory
from mindport.training.start import start_model
from mindport.training.step_record import StepRecord
from mindport.training.text import open_text, text_directory
from mindport.training.train_report import read_report
from mindport.training.trainer import Trainer

Say = Callable[[str], None]
WORKER = "mindport.parallel.layouts.worker:train_each"
SECONDS, PLAIN = 1800.0, "reference"  # after which a launch is ended; the path of the plain kernels
SUMS = {"linear", "rms_norm", "layer_norm"}  # all plain kernels at once take 20 GB for SmolLM2, these no more than ours


def compare_layouts(
    config: TrainConfig, layouts: Sequence[str], out: Path | str, *, say: Say | None = None,
    timeout: float = SECONDS, worker: str = WORKER,
) -> LayoutParity:  # fmt: skip
    """Train in one process, then under each layout; real processes, the same batches, dropout as configured.

    No checkpoint is written: nobody goes on from these trainings.

    Args:
        config: of the training; what it says of processes and of its directory is not looked at.
        layouts: "dp2", "tp2", "dp2,tp2": degrees of data and tensor parallelism.
        out: a folder; each training gets one in it, and those of an earlier comparison are begun again.
        say: is told what the processes say.
        timeout: seconds for all layouts of one number of processes.
        worker: what each process calls, as `package.module:function`; a lesson plants a fault there.

    Raises:
        UsageError: a layout asks for more than dp and tp, for one process only, or for too many.
        ConfigError: rows or model do not divide among its processes.
        LaunchFailed: a process failed.
        MindPortError: as `Trainer.run`.
    """
    wanted, out = [small_layout(text) for text in layouts], Path(out)
    for layout in wanted:
        check_layout(config, layout.dp, layout.tp)
    base = _shared(config, out)
    one = _alone(_named(base, out / "one"), "one process")
    courses: dict[str, LayoutRun] = {}
    for size, group in itertools.groupby(sorted(wanted, key=lambda layout: layout.devices), lambda x: x.devices):
        courses |= _together(base, out, list(group), partial(call, worker, workers=size, timeout=timeout, say=say))
    found = LayoutParity(config.model, config.dropout, one, tuple(courses[layout.degrees] for layout in wanted))
    if not LIMIT < found.worst < HOPELESS:
        return found
    return replace(found, order=order(base, out, one))


def small_layout(text: str) -> Layout:
    """A layout of several processes that runs here: of data and tensor parallelism.

    Raises:
        UsageError: it is another.
    """
    layout = parse_layout(text)
    if layout != Layout(dp=layout.dp, tp=layout.tp) or layout.devices < 2:
        raise UsageError("not a layout of several processes here", got=text, expected="dp and tp: dp2, tp2, dp2,tp2",
                         do="pipelines, ZeRO and the rest are MindSpore's own, on Ascend: mindport plan")  # fmt: skip
    return layout


def _shared(config: TrainConfig, out: Path) -> TrainConfig:
    """With the text and the model in one place for all, made once."""
    config = replace(config, out=str(out / "one"), parallel=replace(config.parallel, dp=1, tp=1))
    start = start_model(config, out / "model", lambda _: None)
    text = text_directory(replace(config, out=str(out)))
    shared = replace(config, model=str(start.directory), data=replace(config.data, directory=str(text)))
    open_text(shared)
    return shared


def _named(config: TrainConfig, out: Path, **changes: object) -> TrainConfig:
    return replace(config, out=str(out), **changes)  # type: ignore[arg-type]


def _together(
    base: TrainConfig, out: Path, layouts: Sequence[Layout], launch: Callable[..., list[Any]]
) -> dict[str, LayoutRun]:
    """The trainings under layouts of as many processes, in one launch."""
    configs = {each.degrees: _named(base, out / each.degrees, parallel=replace(base.parallel, dp=each.dp, tp=each.tp))
               for each in layouts}  # fmt: skip
    files = [str(write_config(config, out / f"{name}.yaml")) for name, config in configs.items()]
    told = launch({"configs": files}, log_dir=out / "logs")
    return {name: _course(name, config, [each[i] for each in told])
            for i, (name, config) in enumerate(configs.items())}  # fmt: skip


def _alone(config: TrainConfig, name: str) -> LayoutRun:
    Trainer(config, quiet=True, saves=False).run(overwrite=True)
    return _course(name, config, ())


def order(base: TrainConfig, out: Path, one: LayoutRun) -> float | None:
    """How far apart losses are in one process whose sums are taken in another order: linear maps, norms by plain ones.

    Masks, rows and everything else are the same. None where the plain kernels are what the first run took.
    """
    from mindport.model.kernels import choices, override

    fast = {choice.kernel for choice in choices() if choice.path != PLAIN} & SUMS
    if not fast:
        return None
    with contextlib.ExitStack() as stack:
        for kernel in fast:
            stack.enter_context(override(kernel, PLAIN))
        other = _alone(_named(base, out / "plain"), "one process, plain kernels")
    return apart(other, one)


def _course(name: str, config: TrainConfig, shares: Sequence[dict[str, Any]]) -> LayoutRun:
    run = RunDirectory(config.out)
    events = read_metrics(run.metrics)
    steps = [event for event in events if isinstance(event, StepRecord)]
    measured = [event.loss for event in events if isinstance(event, Evaluation)]
    return LayoutRun(
        name, tuple(step.loss for step in steps), tuple(step.norm for step in steps),
        measured[-1] if measured else math.nan, tuple(step.tokens for step in steps),
        tuple(step.seconds for step in steps), tuple(map(_share, shares)), read_report(run.report).device,
    )  # fmt: skip


def _share(told: dict[str, Any]) -> ProcessShare:
    return ProcessShare(**{**told, "q": tuple(told["q"]), "rows": tuple(told["rows"])})
