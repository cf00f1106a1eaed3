"""What came of a training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from signal import Signals
from typing import Any

from mindport.errors import FileError
from mindport.files import read_json
from mindport.mindformers import Layout
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.monitor import Alarm, Evaluation, Event, Pace, event_of
from mindport.training.step_record import StepRecord

LAST = 10  # steps that the last loss is the mean of, or as many as there are
ROWS = 12  # of the curve in the table
Point = tuple[int, float, float, float]  # step, loss, norm, learning rate


@dataclass(frozen=True)
class TrainReport(Result):
    """A training that was resumed is one training: its figures are of all its steps.

    Attributes:
        out: the run's directory.
        command: that goes on with it, or does it again.
        model: what was trained, and from where it started.
        device: what computed.
        mode: of execution.
        steps: that were asked for.
        step: that was reached.
        resumed: the step that this process went on after; None for a run of one piece.
        ended: why the run ended before its last step; empty if it did not.
        signal: that ended it, if one did.
        curve: (step, loss, norm, learning rate) of each step.
        skipped: steps that moved nothing, because of an overflow, or since no token counted.
        finite: whether the loss of every step that moved the weights is a number.
        held_out: measurements on text that is not learned from, the first before the first step.
        pace: speed and memory of this process's steps; None if it took none.
        compiled: graphs that were compiled in steps.
        compile_seconds: of those steps.
        stalled: seconds that the training stood still for checkpoints, in this process.
        alarms: that rang.
        checkpoints: that are there, the newest last.
        best: the one with the lowest held-out loss, if it is kept.
        warnings: what was said as the run was resumed.
        config: the whole configuration.
    """

    out: Path
    command: str
    model: str
    device: str
    mode: str
    steps: int
    step: int
    resumed: int | None
    ended: str
    signal: Signals | None
    curve: tuple[Point, ...]
    skipped: int
    finite: bool
    held_out: tuple[Evaluation, ...]
    pace: Pace | None
    compiled: int
    compile_seconds: float
    stalled: float
    alarms: tuple[Alarm, ...]
    checkpoints: tuple[Path, ...]
    best: Path | None
    warnings: tuple[str, ...]
    config: dict[str, Any]

    @property
    def fatal(self) -> Alarm | None:
        """The alarm that ended the run."""
        return next((alarm for alarm in self.alarms if alarm.fatal), None)

    @property
    def ok(self) -> bool:
        """It ended as it was to, the weights moved, and never by what is no number."""
        return self.skipped < len(self.curve) and self.finite and self.fatal is None and self.signal is None

    @property
    def exit_code(self) -> int:
        return 128 + self.signal if self.signal else super().exit_code

    @property
    def first_loss(self) -> float:
        return self.curve[0][1] if self.curve else math.nan

    @property
    def last_loss(self) -> float:
        """The mean of the last ten steps."""
        losses = [loss for _, loss, _, _ in self.curve[-LAST:]]
        return sum(losses) / len(losses) if losses else math.nan

    def headline(self) -> str:
        course = f"loss {self.first_loss:.3f} in the first step, {self.last_loss:.3f} over the last {LAST}"
        if len(self.held_out) > 1:
            before, after = (f"{measured.perplexity:.4g}" for measured in (self.held_out[0], self.held_out[-1]))
            course = f"held-out perplexity {before} → {after}; {course}"
        if self.fatal:
            return f"{self.fatal.name} at step {self.fatal.step}; {self._last_good()}"
        if self.signal and not self.step:
            return f"{self.signal.name} ended the run before its first step, nothing was saved; begin: {self.command}"
        if self.signal:
            return f"{self.signal.name} ended the run after step {self.step} of {self.steps}; go on: {self.command}"
        early = f" ({self.ended})" if self.ended else ""
        early += ", none of which moved the weights" if self.skipped == len(self.curve) else ""
        return f"{self.step} of {self.steps} steps{early}: {course}"

    def tables(self) -> tuple[Table, ...]:
        figures = [(name, value) for name, value in self._figures() if value not in (None, "")]
        curve = [(step, f"{loss:.4f}", norm, lr) for step, loss, norm, lr in thinned(self.curve)]
        held = [(e.step, f"{e.loss:.4f}", f"{e.perplexity:.4g}", e.tokens, e.seconds) for e in self.held_out]
        alarms = [(alarm.step, alarm.name, alarm.says, alarm.causes[0], alarm.do) for alarm in self.alarms]
        tables = (
            Table("figures", ("what", "value"), figures),
            Table("steps", ("step", "loss", "norm", "learning rate"), curve),
            Table("held-out text", ("step", "loss", "perplexity", "tokens", "seconds"), held),
            Table("alarms", ("step", "what", "seen", "likely cause", "do"), alarms),
            Table("warnings", ("said",), [(each,) for each in self.warnings]),
        )
        return tuple(table for table in tables if table.rows)

    def properties(self) -> tuple[Property, ...]:
        """Lines for the card: it ended well, and the model is better on text that it did not learn from."""
        how = f"{self.step} steps in {self.mode} mode, {self.model}"
        figure = f"loss {self.first_loss:.3f}, {self.last_loss:.3f} over the last {LAST}"
        lines = [verdict("a training runs to its end with finite losses", self.ok, how, figure, self.device)]
        if len(self.held_out) > 1:
            first, last = self.held_out[0], self.held_out[-1]
            lines.append(verdict(
                "training lowers the perplexity on text that was held out", last.loss < first.loss, how,
                f"{first.perplexity:.4g} → {last.perplexity:.4g}", self.device))  # fmt: skip
        return tuple(lines)

    def _figures(self) -> list[tuple[str, object]]:
        pace = self.pace
        return [
            ("model", self.model),
            ("device, mode", f"{self.device}, {self.mode}"),
            ("processes", _processes(self.config.get("parallel", {}))),
            ("resumed after step", self.resumed),
            ("tokens a second", pace and pace.tokens_per_second and round(pace.tokens_per_second)),
            ("share of the machine's peak (MFU)", pace and pace.mfu and _share(pace.mfu)),
            ("peak memory", pace and f"{pace.peak / 1e3:.2f} GB"),
            ("graphs compiled", self.compiled and f"{self.compiled}, in steps that took {self.compile_seconds:.1f} s"),
            ("steps that moved nothing", self.skipped or None),
            ("stood still for checkpoints", f"{self.stalled:.2f} s" if self.stalled else None),
            ("checkpoints", ", ".join(path.name for path in self.checkpoints)),
            ("best checkpoint", self.best and self.best.name),
            ("directory", str(self.out)),
            ("command", self.command),
        ]

    def _last_good(self) -> str:
        good = f"the last checkpoint is {self.checkpoints[-1]}" if self.checkpoints else "there is no checkpoint yet"
        return f"the weights of then were not saved, {good}"


def _processes(told: Mapping[str, Any]) -> str | None:
    """Of a training over several."""
    dp, tp = told.get("dp", 1), told.get("tp", 1)
    return f"{dp * tp}: {Layout(dp=dp, tp=tp).degrees}" if dp * tp > 1 else None


def _share(mfu: float) -> str:
    """MFU in words: a peak that a busy machine showed is none."""
    busy = "" if mfu <= 1 else "; no peak, then: the machine was busy when it was measured"
    return f"{mfu:.0%}{busy}"


def thinned(curve: Sequence[Point], rows: int = ROWS) -> list[Point]:
    """About so many rows, the first and the last among them."""
    if len(curve) <= rows:
        return list(curve)
    places = sorted({round(i * (len(curve) - 1) / (rows - 1)) for i in range(rows)})
    return [curve[place] for place in places]


def figures_of(events: Sequence[Event]) -> dict[str, Any]:
    """The fields that the record of a run answers."""
    steps = [event for event in events if isinstance(event, StepRecord)]
    compiling = [record for record in steps if record.compiled]
    return {
        "curve": tuple((record.step, record.loss, record.norm, record.lr) for record in steps),
        "skipped": sum(not record.moved for record in steps),
        "finite": all(math.isfinite(record.loss) for record in steps if record.moved),
        "held_out": tuple(event for event in events if isinstance(event, Evaluation)),
        "alarms": tuple(event for event in events if isinstance(event, Alarm)),
        "compiled": sum(record.compiled for record in compiling),
        "compile_seconds": sum(record.seconds for record in compiling),
    }


def read_report(path: Path) -> TrainReport:
    """The report that a training left: what another process of it, or an earlier one, answered.

    Raises:
        FileError: it is missing, or no such report.
    """
    told = read_json(path)
    try:
        return TrainReport(**{f.name: _READERS.get(f.name, _same)(told[f.name]) for f in fields(TrainReport)})
    except (KeyError, TypeError, ValueError) as error:
        raise FileError("this is no report of a training", where=path, got=f"{type(error).__name__}: {error}",
                        do="train again, or resume: the report comes last") from None  # fmt: skip


def _same(value: Any) -> Any:
    return value


def _all(read: Callable[[Any], Any]) -> Callable[[list[Any]], tuple[Any, ...]]:
    return lambda values: tuple(map(read, values))


def _unless_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _event(kind: type) -> Callable[[dict[str, Any]], Any]:
    return lambda value: event_of(kind, value)


def _point(value: list[Any]) -> Point:
    step, loss, norm, lr = value
    return step, float(loss), float(norm), float(lr)


_READERS: dict[str, Callable[[Any], Any]] = {  # of what is not in JSON as it is here
    "out": Path, "checkpoints": _all(Path), "best": _unless_none(Path), "signal": _unless_none(Signals),
    "curve": _all(_point), "held_out": _all(_event(Evaluation)), "alarms": _all(_event(Alarm)),
    "pace": _unless_none(_event(Pace)), "warnings": tuple, "stalled": float, "compile_seconds": float,
}  # fmt: skip
