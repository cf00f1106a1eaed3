"""A loss scale that begins far too large: it overflows, is halved until it fits, and tries again now and then."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.lessons.laboratory import Laboratory
from mindport.training.step_record import StepRecord

STEPS, FIRST, WINDOW = 18, 2.0**22, 4


@dataclass(frozen=True)
class ScaleCourse(Result):
    """The steps.

    Attributes:
        records: of all steps.
        first: the scale to begin with.
        window: good steps after which it doubles.
        taken: steps that the optimizer counted.
    """

    records: tuple[StepRecord, ...]
    first: float
    window: int
    taken: int

    @property
    def skipped(self) -> int:
        """Steps that overflowed."""
        return sum(not record.moved for record in self.records)

    def scales(self) -> list[float]:
        """Of every step."""
        return [record.loss_scale for record in self.records]

    @property
    def ok(self) -> bool:
        """Some overflowed, the rest moved, and the scale did each time what it should."""
        pairs = zip(self.records, self.records[1:], strict=False)
        halved = all(b.loss_scale == a.loss_scale / 2 for a, b in pairs if not a.moved)
        return 0 < self.skipped < len(self.records) and halved and self.taken == len(self.records) - self.skipped

    def headline(self) -> str:
        return (f"{self.skipped} of {len(self.records)} steps overflowed and moved nothing; the loss scale came down "
                f"from {self.first:.0f} to {min(self.scales()):.0f}; the optimizer counted {self.taken}")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [(r.step, f"{r.loss_scale:.0f}", "moved" if r.moved else "skipped", r.loss, r.norm, r.lr)
                for r in self.records]  # fmt: skip
        return (Table(f"a loss scale that begins at {self.first:.0f} and doubles after {self.window} good steps",
                      ("step", "loss scale", "weights", "loss", "norm", "learning rate"), rows),)  # fmt: skip

    def properties(self) -> tuple[Property, ...]:
        return (verdict("an overflow moves nothing, and halves the loss scale", self.ok,
                        f"float16 (O1), first scale {self.first:.0f}", self.headline(), "CPU"),)  # fmt: skip


def watch_loss_scale(laboratory: Laboratory) -> ScaleCourse:
    """Train some steps in float16, with a loss scale that is too large on purpose."""
    stepper = laboratory.stepper(
        "precision.level=O1", f"precision.loss_scale={FIRST}", f"precision.window={WINDOW}", f"steps={STEPS}",
        "schedule.warmup=2",
    )  # fmt: skip
    records = tuple(stepper.step([batch]) for batch in laboratory.batches(STEPS))
    return ScaleCourse(records, FIRST, WINDOW, int(stepper.optimizer.step.asnumpy()))
