"""One process of a training raises in the middle: what is said, and whether the resumed run is the same run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mindport.errors import UsageError
from mindport.parallel.join import join
from mindport.parallel.launch import LaunchFailed, call
from mindport.parallel.lessons.workshop import smallest
from mindport.parallel.train import train
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.callbacks import Callback
from mindport.training.checkpoint.checkpoints import step_of
from mindport.training.config import TrainConfig, read_config, write_config
from mindport.training.kill_test.comparison import Comparison, compare_runs
from mindport.training.run_directory import RunDirectory
from mindport.training.trainer import Trainer

WORKER = "mindport.parallel.lessons.crash:train_until"
SECONDS, SIZE = 600.0, 2


@dataclass(frozen=True)
class Crash(Result):
    """A training that lost a process, and went on.

    Attributes:
        rank: that raised, before this step.
        step: see `rank`.
        message: what the launcher said, the broken process first.
        checkpoint: the step of the newest checkpoint then; 0 for none.
        comparison: of the resumed run with one that was not disturbed.
        newest: the checkpoint that it ended with.
        device: what computed.
    """

    rank: int
    step: int
    message: str
    checkpoint: int
    comparison: Comparison
    newest: Path
    device: str = "CPU"

    @property
    def ok(self) -> bool:
        return self.comparison.ok and self.checkpoint > 0

    def headline(self) -> str:
        return (f"rank {self.rank} raised before step {self.step}; resumed after step {self.checkpoint}: "
                f"{self.comparison.headline()}")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        return self.comparison.tables()

    def properties(self) -> tuple[Property, ...]:
        how = f"rank {self.rank} raised in the middle; beside an undisturbed run under the same layout"
        return (verdict("a training that loses a process resumes to the last bit", self.ok, how, self.headline(),
                        self.device),)  # fmt: skip


def crash_and_resume(
    out: Path | str, *, rank: int = 1, step: int | None = None, say: Callable[[str], None] | None = None
) -> Crash:
    """Train the smallest bundled model under dp2, once undisturbed; then one process raises, and the run is resumed.

    Args:
        out: a folder, for both runs, which are begun anew.
        rank: of the process that raises.
        step: before which, from 1 on; None: the last but one, so that a checkpoint is behind it.
        say: is told what the processes say.

    Raises:
        UsageError: there is no such rank or step.
        LaunchFailed: a process failed that should not.
    """
    config = _config(out, "undisturbed")
    step = config.steps - 1 if step is None else step
    if not (0 <= rank < SIZE and 1 <= step <= config.steps):
        raise UsageError("nothing to lose there", got=f"rank {rank} of {SIZE}, before step {step}",
                         expected=f"a rank from 0 on, and a step of {config.steps}")  # fmt: skip
    train(config, overwrite=True, quiet=True)
    disturbed = _config(out, "disturbed")
    file = write_config(disturbed, Path(out) / "disturbed.yaml")
    arguments = {"path": str(file), "rank": rank, "step": step}
    message = _crash(partial(call, WORKER, arguments, workers=SIZE, log_dir=Path(out) / "logs", timeout=SECONDS,
                             say=say))  # fmt: skip
    saved = max(map(step_of, RunDirectory(disturbed.out).checkpoints.glob("step-*")), default=0)  # before the resume
    report = train(disturbed, resume=True, quiet=True)
    compared = compare_runs(RunDirectory(config.out), RunDirectory(disturbed.out))
    return Crash(rank, step, message, saved, compared, report.checkpoints[-1], report.device)


def _config(out: Path | str, name: str) -> TrainConfig:
    config = smallest(Path(out) / name)
    return replace(config, parallel=replace(config.parallel, dp=SIZE))


def _crash(launch: Callable[[], object]) -> str:
    """What is said of a launch that fails."""
    try:
        launch()
    except LaunchFailed as failed:
        return str(failed)
    raise AssertionError("a rank raised, and the launch did not fail")


def train_until(path: str, rank: int, step: int) -> None:
    """In each process: the training, in which one of them raises."""
    config = read_config(path)
    ranks = join(config.parallel.dp, config.parallel.tp)
    broken = [_Break(step)] if ranks.rank == rank else []
    Trainer(config, callbacks=broken, ranks=ranks, quiet=True).run(overwrite=True)


class _Break(Callback):
    """Raises before a step, as code does that meets what it did not expect."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_batch(self, run: Trainer, batches: object) -> None:
        if run.step + 1 == self.step:
            raise ValueError(f"planted: this row cannot be read, before step {self.step}")
