"""Trouble planted into the record of a healthy run, one kind at a time: which alarm rings, what it says, what to do.

The records are made up; the rules are those that watch a real run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.monitor import Alarm, Evaluation, Plan, Watch
from mindport.training.step_record import StepRecord

STEPS, AT, VOCAB = 240, 120, 512
Change = Callable[[StepRecord], StepRecord]


@dataclass(frozen=True)
class Trouble:
    """One kind.

    Attributes:
        planted: in words.
        alarm: that should ring first.
        change: what it makes of a healthy step.
        start: how the run began.
        scaled: whether the loss is scaled.
    """

    planted: str
    alarm: str
    change: Change
    start: str = "scratch"
    scaled: bool = False


def _from(step: int, **values: float) -> Change:
    return lambda record: replace(record, **values) if record.step >= step else record


def _once(**values: float) -> Change:
    return lambda record: replace(record, **values) if record.step == AT else record


def _halving(record: StepRecord) -> StepRecord:
    overflowed = max(0, record.step - AT)
    return replace(record, loss_scale=2.0**16 / 2**overflowed, moved=record.step < AT,
                   norm=math.inf if record.step >= AT else record.norm) if overflowed < 10 else record  # fmt: skip


TROUBLES = (
    Trouble("nothing was loaded: a pretrained model begins at ln V", "nothing loaded", lambda r: r, "pretrained"),
    Trouble("labels are the inputs themselves: the loss begins near 0", "labels leak",
            lambda r: replace(r, loss=0.05 * r.loss)),
    Trouble("a weight becomes infinite", "not finite", _from(AT, loss=math.nan, norm=math.nan, moved=False)),
    Trouble("one batch of broken text", "loss spike", _once(loss=9.0)),
    Trouble("one step with a gradient 200 times as large", "gradient spike", lambda r: replace(r, norm=200 * r.norm)
            if r.step == AT else r),
    Trouble("the graph is cut: no gradient arrives", "no gradient", _from(AT, norm=0.0)),
    Trouble("the schedule has ended before the run", "learning rate 0", _from(AT, lr=0.0)),
    Trouble("a float16 value that overflows at any scale", "loss scale falls", _halving, scaled=True),
    Trouble("a new graph in the middle of the run", "recompiled", _once(compiled=1, seconds=20.0)),
    Trouble("another job takes the cores", "slow", _from(AT, seconds=0.9)),
)  # fmt: skip


@dataclass(frozen=True)
class Rehearsal(Result):
    """What rang.

    Attributes:
        rang: trouble → its first alarm; None where all was quiet.
        false_alarms: that rang in the healthy run.
    """

    rang: tuple[tuple[Trouble, Alarm | None], ...]
    false_alarms: tuple[Alarm, ...]

    @property
    def named(self) -> int:
        """Troubles whose own alarm rang first."""
        return sum(alarm is not None and alarm.name == trouble.alarm for trouble, alarm in self.rang)

    @property
    def ok(self) -> bool:
        return self.named == len(self.rang) and not self.false_alarms

    def headline(self) -> str:
        return (f"{self.named} of {len(self.rang)} troubles are named by their first alarm; {len(self.false_alarms)} "
                f"alarms in {STEPS} healthy steps")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [_row(trouble, alarm) for trouble, alarm in self.rang]
        return (Table("trouble, and what rings", ("planted", "alarm", "at step", "seen", "likely causes", "do"), rows),)

    def properties(self) -> tuple[Property, ...]:
        how = f"{len(self.rang)} planted into made-up records of {STEPS} steps"
        return (verdict("trouble in a run rings, and a healthy run does not", self.ok, how, self.headline()),)

    def as_dict(self) -> dict[str, object]:
        """Without the functions that planted."""
        rang = [{"planted": trouble.planted, "expected": trouble.alarm, "alarm": alarm and alarm.name}
                for trouble, alarm in self.rang]  # fmt: skip
        return {"ok": self.ok, "headline": self.headline(), "rang": rang}


def rehearse_alarms() -> Rehearsal:
    """Plant each trouble into a healthy run, and listen."""
    healthy = Trouble("nothing", "", lambda record: record)
    return Rehearsal(tuple((trouble, next(iter(_listen(trouble)), None)) for trouble in TROUBLES),
                     tuple(_listen(healthy)))  # fmt: skip


def _row(trouble: Trouble, alarm: Alarm | None) -> tuple[object, ...]:
    if alarm is None:
        return trouble.planted, "none", None, "", "", ""
    return trouble.planted, alarm.name, alarm.step, alarm.says, "; or ".join(alarm.causes), alarm.do


def _listen(trouble: Trouble) -> list[Alarm]:
    watch = Watch(Plan(trouble.start, VOCAB, STEPS, warmup=20, loss_scale=trouble.scaled))  # type: ignore[arg-type]
    alarms = watch.evaluation(Evaluation(0, math.log(VOCAB), VOCAB, 1000, 0.1))
    for record in _healthy():
        alarms += watch.step(trouble.change(record), [(8, 64)])
    return alarms


def _healthy() -> list[StepRecord]:
    """A loss that comes down from ln V, with the noise of batches."""
    noise = np.random.default_rng(0).normal(size=(STEPS, 3))
    return [
        StepRecord(
            step=step, loss=float(2.2 + (math.log(VOCAB) - 2.2) * math.exp(-(step - 1) / 60) + 0.03 * a),
            norm=float(abs(1.0 + 0.1 * b)), lr=3e-3 * min(1.0, step / 20), loss_scale=1.0, counted=500, tokens=512,
            seconds=float(0.1 * (1 + 0.03 * abs(c))), compiled=int(step == 1),
        )
        for step, (a, b, c) in enumerate(noise, 1)
    ]  # fmt: skip
