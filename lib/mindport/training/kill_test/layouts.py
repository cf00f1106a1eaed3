"""A training that goes on under another layout than the one that wrote its checkpoint, held to the one that did not.

tp2:dp2    a run of two processes that share the weights; its first checkpoint is resumed by two replicas
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.errors import UsageError
from mindport.mindformers import Layout, parse_layout
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.checkpoint import read_checkpoint
from mindport.training.checkpoint.checkpoints import step_of
from mindport.training.kill_test.comparison import compare_runs
from mindport.training.kill_test.process import Training
from mindport.training.monitor import read_metrics
from mindport.training.run_directory import RunDirectory
from mindport.training.step_record import StepRecord

LIMIT = 1e-6  # of the losses


@dataclass(frozen=True)
class Resumed:
    """One resume.

    Attributes:
        wrote: the layout of the run that wrote the checkpoint.
        reads: the one that it is gone on with.
        is_sharded: whether the checkpoint lies in shares.
        step: of the checkpoint.
        steps: that the run which went on undisturbed took after it.
        loss: the largest difference of a step's loss from that run; NaN where a step is missing, or its loss is NaN.
        weights: the largest difference of a weight at the end.
        is_equal: whether every number and every array is the same, bit for bit.
    """

    wrote: str
    reads: str
    is_sharded: bool
    step: int
    steps: int
    loss: float
    weights: float
    is_equal: bool

    @property
    def ok(self) -> bool:
        """Within the limit; under the same layout, to the last bit."""
        return self.steps > 0 and (self.is_equal if self.wrote == self.reads else self.loss <= LIMIT)


@dataclass(frozen=True)
class LayoutReport(Result):
    """Whether a checkpoint may be resumed under any layout.

    Attributes:
        resumed: in order.
    """

    resumed: tuple[Resumed, ...]

    @property
    def ok(self) -> bool:
        return bool(self.resumed) and all(one.ok for one in self.resumed)

    def headline(self) -> str:
        good, worst = sum(one.ok for one in self.resumed), np.max([one.loss for one in self.resumed], initial=0.0)
        return (f"{good} of {len(self.resumed)} resumes under another layout, or the same, go on as the run did: "
                f"losses within {worst:.1e} (limit {LIMIT:g})")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [(one.wrote, one.reads, "in shares" if one.is_sharded else "whole", one.step, one.steps, one.loss,
                 one.weights, one.is_equal, one.ok) for one in self.resumed]  # fmt: skip
        columns = ("written by", "resumed by", "checkpoint", "of step", "steps after", "loss, largest difference",
                   "weights, largest difference", "equal bit for bit", "ok")  # fmt: skip
        return (Table("resumed", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = ", ".join(f"{one.wrote} → {one.reads}" for one in self.resumed)
        return (verdict("a checkpoint is resumed under another layout with equal losses", self.ok, how,
                        self.headline()),)  # fmt: skip


def resume_under(config: Path | str, out: Path, pairs: Sequence[str], settings: Sequence[str] = (),
                 say: Callable[[str], None] = lambda text: None) -> LayoutReport:  # fmt: skip
    """Train under each first layout of the pairs, and go on from its first checkpoint under the second.

    Args:
        config: of the training.
        out: a folder for the runs.
        pairs: such as `tp2:dp2`, `dp1:tp2`.
        settings: changes of the configuration.
        say: is told what happens.

    Raises:
        UsageError: a pair is none.
        BackendError: a process fails.
    """
    written: dict[str, RunDirectory] = {}
    found = []
    for wrote, reads in map(_pair, pairs):
        if str(wrote) not in written:
            say(f"{wrote.degrees} from the beginning")
            written[str(wrote)] = _train(config, out / wrote.degrees, wrote, settings)
        say(f"{reads.degrees} goes on from the first checkpoint of {wrote.degrees}")
        before = written[str(wrote)]
        after = out / f"{wrote.degrees}-to-{reads.degrees}"
        step, is_sharded = _first_only(before, after)
        found.append(_compare(wrote, reads, is_sharded, step, before, _train(config, after, reads, settings)))
        say(f"losses within {found[-1].loss:.1e} over {found[-1].steps} steps")
    return LayoutReport(tuple(found))


def _pair(text: str) -> tuple[Layout, Layout]:
    parts = text.split(":")
    if len(parts) != 2:
        raise UsageError("not two layouts", got=repr(text), expected="such as tp2:dp2: written by, resumed by")
    return parse_layout(parts[0]), parse_layout(parts[1])


def _train(config: Path | str, out: Path, layout: Layout, settings: Sequence[str]) -> RunDirectory:
    run = RunDirectory(out.absolute())
    parallel = [f"parallel.dp={layout.dp}", f"parallel.tp={layout.tp}"]
    with Training(config, [*settings, "checkpoints.keep=1000", *parallel], run) as training:
        training.wait()
    return run


def _first_only(run: RunDirectory, copy: Path) -> tuple[int, bool]:
    """The run as it was after its first checkpoint; the step, and whether that lies in shares."""
    shutil.copytree(run.path, copy)
    first, *later = sorted((copy / run.checkpoints.name).glob("step-*"))
    if not later:
        raise UsageError("the run has one checkpoint only: nothing would be resumed", where=run.path,
                         do="--set checkpoints.every=4")  # fmt: skip
    for path in later:
        shutil.rmtree(path)
    return step_of(first), read_checkpoint(first).record.is_sharded


def _compare(
    wrote: Layout, reads: Layout, is_sharded: bool, step: int, before: RunDirectory, after: RunDirectory
) -> Resumed:
    losses = [{one.step: one.loss for one in read_metrics(run.metrics) if isinstance(one, StepRecord)}
              for run in (before, after)]  # fmt: skip
    steps, worst = losses_apart(*losses, step)
    saved = [read_checkpoint(sorted(run.checkpoints.glob("step-*"))[-1]) for run in (before, after)]
    weights = max(float(np.abs(saved[0].weights[name] - saved[1].weights[name]).max()) for name in saved[0].weights)
    return Resumed(wrote.degrees, reads.degrees, is_sharded, step, steps, worst, weights,
                   compare_runs(before, after).ok)  # fmt: skip


def losses_apart(undisturbed: Mapping[int, float], resumed: Mapping[int, float], step: int) -> tuple[int, float]:
    """How many steps the one run took after `step`, and the largest difference of their losses in the other.

    NaN where the other lacks one of them, or a loss is NaN: `max` would pass over it.
    """
    steps = [number for number in undisturbed if number > step]
    apart = [abs(undisturbed[number] - resumed.get(number, math.nan)) for number in steps]
    return len(steps), float(np.max(apart, initial=0.0))
