"""A training from its configuration to its report; what it is made of lies beside this file.

    Trainer(read_config("train.yaml")).run()

    start or resume ── measure ── (data ── step ── watch ── measure? sample? save?)* ── measure ── save ── report

A run is exact: what is computed depends on the configuration, the model and the text alone. One that was killed and
resumed takes the same steps, to the last bit, as one that was not; a step that was taken after the last checkpoint is
taken again.

Of several processes each runs this same loop, in step with the others: what they decide on (losses, what is due, the
wish to end) is the same on all, by itself or because they agree on it. Callbacks are called on every rank, with its own
rows of the batches; what they ask for (a measurement, a checkpoint) all of them have to ask for. The run's files, the
sinks and the terminal are the first rank's alone.
"""

from __future__ import annotations

import contextlib
import functools
import math
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from signal import Signals
from typing import TYPE_CHECKING

from mindport.errors import UsageError
from mindport.files import write_json
from mindport.ranks import ALONE, Ranks
from mindport.results import plain
from mindport.training.callbacks import Callback, CallbackFailed, Callbacks
from mindport.training.checkpoint import Snapshot
from mindport.training.collective import after_first, most, total
from mindport.training.config import TrainConfig, complete, write_config
from mindport.training.consistency import check_ranks
from mindport.training.data.batch import Batch
from mindport.training.gathered import Arrays, WholeArrays, give
from mindport.training.interrupt import Wish, wishes
from mindport.training.monitor import Alarm, Evaluation, Pace, Sink, evaluate, read_metrics
from mindport.training.parts import Parts, assemble, best_of, is_sharded
from mindport.training.run_directory import RunDirectory
from mindport.training.train_report import TrainReport, figures_of, read_report

if TYPE_CHECKING:
    from mindport.model import GPT
    from mindport.training.stepper import Stepper


class Trainer:
    """One training.

    Args:
        config: what is trained, on what, how; its relative paths begin at the working directory.
        callbacks: are told of every event, in this order.
        sinks: take every event that is recorded, besides the run's own files and the terminal.
        quiet: no line a step on stderr, nor what the run begins with; the report has it.
        saves: False: no checkpoint is written, for a run that nobody goes on from.
        ranks: which of the configuration's processes this one is, of several; `mindport.parallel.train` starts them.

    Attributes:
        step: steps taken so far.
        parts: model, data and the rest, of the last call of `run`.

    Raises:
        ConfigError: the configuration makes no sense.
        UsageError: it asks for other processes than there are.
    """

    def __init__(
        self, config: TrainConfig, callbacks: Sequence[Callback] = (), sinks: Sequence[Sink] = (), *,
        quiet: bool = False, saves: bool = True, ranks: Ranks = ALONE,
    ) -> None:  # fmt: skip
        self.config, self.callbacks, self.sinks = complete(config), Callbacks(callbacks), tuple(sinks)
        self.quiet, self.saves, self.ranks = quiet, saves, _as_asked(self.config, ranks)
        self.directory = RunDirectory(self.config.out)
        self.parts: Parts = None  # type: ignore[assignment]  # until it runs
        self._begin(0)

    @property
    def model(self) -> GPT:
        """What is trained."""
        return self.parts.stepper.model

    @property
    def stepper(self) -> Stepper:
        """What trains it: optimizer, schedule, loss scale."""
        return self.parts.stepper

    @property
    def held_out(self) -> tuple[Batch, ...]:
        """What the measurements are made on."""
        return self.parts.held_out

    def run(self, *, resume: bool = False, overwrite: bool = False) -> TrainReport:
        """Train.

        Args:
            resume: go on from the newest whole checkpoint of the directory; without one, begin.
            overwrite: remove an earlier run there first.

        Returns:
            What came of it, also when Ctrl-C, SIGTERM or a fatal alarm ended it.

        Raises:
            MindPortError: something is wrong with the configuration, the model, the text, the directory, a checkpoint;
                or a callback failed.
        """
        assembled = functools.partial(assemble, self.config, self.directory, self.sinks, ranks=self.ranks,
                                      resume=resume, quiet=self.quiet)  # fmt: skip
        with self._held(resume=resume, overwrite=overwrite), assembled() as self.parts:
            return self._run()

    def stop(self, reason: str) -> None:
        """End the training after this step, as if it had been its last: with a measurement and a checkpoint.

        Args:
            reason: is in the report.
        """
        self.reason = reason

    def evaluate(self) -> Evaluation:
        """Measure the model on the held-out text, record it, and tell the callbacks."""
        share = self.held_out[self.ranks.dp_rank :: self.ranks.dp]
        measured = evaluate(self.stepper.loss, share, step=self.step, total=functools.partial(total, self.ranks))
        alarms = self.parts.monitor.evaluation(measured)
        self.parts.measured = measured
        self.callbacks.call("on_evaluation", self, measured)
        self._ring(alarms)
        return measured

    def save(self) -> None:
        """Write a checkpoint of this step, unless there is one, none is wanted, or the ranks hold other weights."""
        if self._saved == self.step:
            return
        if alarm := check_ranks(self.ranks, Arrays(self.stepper.weights), self.model.split, self.step):
            self._ring(self.parts.monitor.notice(alarm))
            return
        if not self.saves:
            return
        self._write()
        self._saved = self.step
        self.callbacks.call("on_checkpoint", self, self.step)

    def wait(self) -> None:
        """Until the last checkpoint is on the disk."""
        self.parts.checkpoints.wait()

    @contextlib.contextmanager
    def _held(self, *, resume: bool, overwrite: bool) -> Iterator[None]:
        """The run's directory for the time of the block: held by the first rank, for all."""
        if not self.ranks.is_first:
            yield
            return
        self.directory.check_free(resume=resume, overwrite=overwrite)
        with self.directory.locked():
            self.directory.check_free(resume=resume, overwrite=overwrite)  # nobody was faster
            if overwrite:
                self.directory.clear()
            yield

    def _run(self) -> TrainReport:
        if self.ranks.is_first:
            write_config(self.config, self.directory.config)
        self._begin(self.parts.step)
        with wishes() as self._wish:
            try:
                self._loop()
            except CallbackFailed:
                if self.ranks.size == 1:  # the others do not know of it, and a checkpoint takes all
                    self._save_what_is_good()
                raise
            self._agree()
        self.wait()
        pace = self.parts.meter.pace() if self.step > self.parts.step else None
        with after_first(self.ranks):
            if not self.ranks.is_first:
                return read_report(self.directory.report)
            report = self._report(pace)
            write_json(self.directory.report, plain(report.as_dict()))
        return report

    def _begin(self, step: int) -> None:
        self.step = self._saved = step
        self.reason, self._fatal, self._finite, self._stalled, self._wish = "", False, True, 0.0, Wish()
        self._signal: Signals | None = None

    def _loop(self) -> None:
        self.callbacks.call("on_start", self)
        self._measure_if_due()
        self._agree()
        while self.step < self.config.steps and not self._ends():
            self._take_step()
            self._agree()
            if self.step < self.config.steps and not self._ends() and self._do_what_is_due():
                self._agree()
        self._finish()
        self.callbacks.call("on_end", self)

    def _ends(self) -> bool:
        return bool(self.reason or self._signal or self._fatal)

    def _agree(self) -> None:
        """Let every rank know who has been asked to end, and by what: from here on all are."""
        signal, stops = most(self.ranks, (self._wish.signal or 0, bool(self.reason)))
        self._signal = Signals(int(signal)) if signal else None
        if stops and not self.reason:
            self.reason = "a callback of another rank ended it"

    def _take_step(self) -> None:
        began = time.perf_counter()
        batches = [next(self.parts.batches) for _ in range(self.config.batch.accumulate)]
        self.callbacks.call("on_batch", self, batches)
        record = self.parts.stepper.step(batches)
        self.step += 1
        self.parts.position = self.parts.batches.position
        self._finite = math.isfinite(record.loss) or not record.counted  # a mean of nothing says nothing
        record = replace(record, step=self.step, seconds=time.perf_counter() - began)
        shapes = [(self.ranks.dp * rows, tokens) for rows, tokens in (batch.ids.shape for batch in batches)]
        self.parts.meter.add(record, shapes)
        alarms = self.parts.monitor.step(record, shapes)
        self.callbacks.call("on_step", self, record)
        self._ring(alarms)

    def _do_what_is_due(self) -> bool:
        """After a step that is not the last; whether anything was."""
        told = self.config.monitor
        self._measure_if_due()
        if sample := _is_due(self.step, told.sample_every):
            self._sample()
        if save := _is_due(self.step, self.config.checkpoints.every):
            self._save_what_is_good()
        return sample or save or _is_due(self.step, told.evaluate_every)

    def _measure_if_due(self) -> None:
        """Before the first step too; a run that a signal ended may have left it to the one that goes on."""
        due = self.step == 0 or _is_due(self.step, self.config.monitor.evaluate_every)
        if due and not self._is_measured():
            self.evaluate()

    def _is_measured(self) -> bool:
        return self.parts.measured is not None and self.parts.measured.step == self.step

    def _finish(self) -> None:
        """After the last step: what is bad is not saved, and whoever wants to go is not kept waiting."""
        if not (self._fatal or self._signal):
            if not self._is_measured():
                self.evaluate()
            if self.step > self.parts.step:
                self._sample()
        self._save_what_is_good()

    def _save_what_is_good(self) -> None:
        """Not after a loss that is no number, even if no alarm has called it fatal yet."""
        if self.step and self._finite and not self._fatal:
            self.save()

    def _sample(self) -> None:
        samples = self.parts.sampler(self.step) if self.parts.sampler else ()
        self.parts.monitor.samples(samples)
        for sample in samples:
            self.callbacks.call("on_sample", self, sample)

    def _ring(self, alarms: Sequence[Alarm]) -> None:
        self._fatal |= any(alarm.fatal for alarm in alarms)
        for alarm in alarms:
            self.callbacks.call("on_alarm", self, alarm)

    def _write(self) -> None:
        """Hand a checkpoint over: each rank its share, or the first rank all, which those of its replica give it."""
        loss = self.parts.measured.loss if self._is_measured() and self.parts.measured else None
        about = replace(self.parts.about, position=self.parts.position.as_dict())
        weights, state = self.stepper.weights, self.stepper.state()
        sharded = is_sharded(self.config, self.ranks)
        if sharded:
            snapshot = Snapshot(self.step, Arrays(weights), Arrays(state), about)
        else:
            snapshot = Snapshot(self.step, WholeArrays(weights, self.model), WholeArrays(state, self.model), about)
        if sharded or self.ranks.is_first:
            stall = self.parts.checkpoints.save(snapshot, loss)
            self._stalled += stall.waited + stall.took
        elif self.ranks.dp_rank == 0:
            give(snapshot, self.parts.checkpoints.origin.model)

    def _report(self, pace: Pace | None) -> TrainReport:
        parts, checkpoints = self.parts, self.parts.checkpoints
        return TrainReport(
            out=self.directory.path, command=f"mindport train {shlex.quote(str(self.directory.config))} --resume",
            model=f"{self.config.model}, {self.config.start}", device=parts.about.device, mode=self.config.mode,
            steps=self.config.steps, step=self.step, resumed=parts.step or None, ended=self.reason,
            signal=self._signal, pace=pace,
            stalled=self._stalled, checkpoints=checkpoints.all(), best=best_of(checkpoints), warnings=parts.warnings,
            config=plain(self.config), **figures_of(read_metrics(self.directory.metrics)),
        )  # fmt: skip


def _as_asked(config: TrainConfig, ranks: Ranks) -> Ranks:
    """This process's place, held to the configuration.

    Raises:
        UsageError: it asks for others.
    """
    asked = config.parallel
    if (asked.dp, asked.tp) != (ranks.dp, ranks.tp):
        raise UsageError("the configuration asks for other processes than there are", where="parallel",
                         got=f"dp {asked.dp}, tp {asked.tp}", expected=f"dp {ranks.dp}, tp {ranks.tp}",
                         do="mindport.parallel.train.train(config) starts those that it asks for")  # fmt: skip
    return ranks


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
