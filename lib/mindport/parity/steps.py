"""What two trainings say about each other: a value of a parameter, a step, a rung of the ladder, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from mindport.parity.limits import FLOAT32, Limits
from mindport.results import Property, Result, verdict
from mindport.tables import Table

Kind = Literal["grad", "m", "v", "weight"]
Quantity = Literal["loss", "norm", "lr"]
Mode = Literal["Graph", "PyNative"]
SAYS: dict[str, str] = {"grad": "gradient", "m": "m", "v": "√v", "weight": "weight", "loss": "loss", "norm": "norm",
                        "lr": "learning rate"}  # fmt: skip


class Limited:
    """Something with an error and a limit for it; NaN is within none."""

    error: float
    limit: float

    @property
    def ok(self) -> bool:
        return self.error <= self.limit


@dataclass(frozen=True)
class ValueRow(Limited):
    """Gradient, optimizer state or weight of one parameter, in one mode.

    Attributes:
        mode: of MindSpore.
        kind: grad, m, v (as its root, which has a gradient's size), or weight.
        step: steps taken before it was looked at.
        parameter, shape: the parameter, and the shape of what was looked at of it.
        scale: what errors are divided by: the largest value; of a weight, how far it was moved (root mean square).
        error: the largest difference from torch; of a weight, the root mean square of all.
        own: the same between torch and float64.
        limit: for `error`: so many times `own`, or what `own` usually is where torch was lucky here.
    """

    mode: Mode
    kind: Kind
    step: int
    parameter: str
    shape: tuple[int, ...]
    scale: float
    error: float
    own: float
    limit: float

    def __str__(self) -> str:
        return f"{SAYS[self.kind]} of {self.parameter}, {self.mode}"


@dataclass(frozen=True)
class StepRow(Limited):
    """Loss, norm of the gradients before clipping, or learning rate of one step, in one mode.

    Attributes:
        mode: of MindSpore.
        quantity: loss (in nats), norm, or lr.
        step: counted from 0.
        ours, reference: the values.
        error: how far apart; of norms over the reference's, of rates over the largest.
        own: torch from float64, the most so far.
        limit: for `error`.
    """

    mode: Mode
    quantity: Quantity
    step: int
    ours: float
    reference: float
    error: float
    own: float
    limit: float

    def __str__(self) -> str:
        return f"{SAYS[self.quantity]} of step {self.step}, {self.mode}"


@dataclass(frozen=True)
class Rung(Limited):
    """One promise of the ladder.

    Attributes:
        name: the promise.
        how: the way it was shown.
        worst: the value nearest to its limit, and in which mode.
        error, own, limit: that value's.
    """

    name: str
    how: str
    worst: str
    error: float
    own: float
    limit: float

    @property
    def figure(self) -> str:
        return f"{self.error:.1e} at {self.worst}; torch itself {self.own:.1e} (limit {self.limit:.1e})"


@dataclass(frozen=True, kw_only=True)
class StepsReport(Result):
    """Our training against torch's: the same weights, batches and recipe.

    Attributes:
        rungs: from the first loss to the last, each with its worst value.
        values: gradients, optimizer state and weights, parameter by parameter.
        curve: step by step.
        steps: how many.
        recipe: optimizer, schedule and clipping.
        clipped: steps in which the reference's gradients were clipped.
        batches: (steps, rows, tokens) of the input, padding included.
        real_tokens: how many of those are no padding; only they count.
        fed: what the tokens are.
        entries: how many values of a parameter were looked at, at most.
        loss_of_nothing: ln V, what a model that has learnt nothing has.
        device: MindSpore's.
        seconds: by phase.
        limits: what was allowed.
    """

    rungs: tuple[Rung, ...]
    values: tuple[ValueRow, ...]
    curve: tuple[StepRow, ...]
    steps: int
    recipe: dict[str, Any]
    clipped: int
    batches: tuple[int, ...]
    real_tokens: int
    fed: str
    entries: int
    loss_of_nothing: float
    device: str
    seconds: dict[str, float]
    limits: Limits = FLOAT32

    @property
    def ok(self) -> bool:
        return all(rung.ok for rung in self.rungs)

    @property
    def first_red(self) -> Rung | None:
        """The lowest rung that does not hold: what stands on it is wrong because of it."""
        return next((rung for rung in self.rungs if not rung.ok), None)

    @property
    def loss_difference(self) -> float:
        """The largest difference of the losses of one step, in nats."""
        return max(row.error for row in self.curve if row.quantity == "loss")

    @property
    def mode(self) -> Mode:
        """The one that took all steps."""
        return self.curve[-1].mode

    def course(self, quantity: Quantity) -> list[StepRow]:
        """One quantity in that mode, step by step."""
        return [row for row in self.curve if row.quantity == quantity and row.mode == self.mode]

    def headline(self) -> str:
        if red := self.first_red:
            return f"training first goes wrong at: {red.name}: no ({red.figure})"
        said = f"{self.steps} steps of training go the way of torch: losses within {self.loss_difference:.1e}"
        return said + "; at rate 0, so that no weight moved: take 2 steps at least" * (not self._moved)

    @property
    def _moved(self) -> bool:
        """Whether any step had a rate: in a warm-up the first one has none."""
        return any(row.reference for row in self.curve if row.quantity == "lr")

    def tables(self) -> tuple[Table, ...]:
        return (self.ladder(), self.losses(), self.nearest())

    def ladder(self) -> Table:
        """Each rung with the value nearest to its limit."""
        rows = [(_state(rung.ok), rung.name, rung.worst, rung.error, rung.own, rung.limit) for rung in self.rungs]
        title = (
            f"{self.steps} steps of {self.batches[1]} rows: {self.real_tokens:,} real tokens ({self.fed}), no dropout, "
            f"gradients clipped in {self.clipped} steps, at most {self.entries:,} values of a parameter looked at"
        )
        return Table(title, ("state", "training", "nearest to its limit", "error", "torch itself", "limit"), rows)

    def losses(self) -> Table:
        """The curve: ours beside torch's."""
        courses = zip(*map(self.course, ("loss", "norm", "lr")), strict=True)
        rows = [
            (loss.step, f"{loss.ours:.6f}", f"{loss.reference:.6f}", loss.error, loss.limit, norm.ours, norm.error,
             lr.ours, lr.error, _state(loss.ok and norm.ok and lr.ok))
            for loss, norm, lr in courses
        ]  # fmt: skip
        columns = ("step", "loss", "torch's", "apart", "limit", "norm", "apart", "lr", "apart", "state")
        return Table(f"training in {self.mode} mode (untrained: ln V = {self.loss_of_nothing:.4f})", columns, rows)

    def nearest(self, most: int = 12) -> Table:
        """The values of parameters that are nearest to their limits."""
        worst = sorted(self.values, key=nearness, reverse=True)[:most]
        rows = [(row.step, str(row), row.shape, row.scale, row.error, row.own, row.limit, _state(row.ok))
                for row in worst]  # fmt: skip
        columns = ("steps", "value", "shape", "scale", "error", "torch itself", "limit", "state")
        return Table("nearest to their limits: errors relative to the scale", columns, rows)

    def properties(self) -> tuple[Property, ...]:
        return tuple(
            verdict(f"training: {rung.name}", rung.ok, rung.how, self._figure(rung), self.device) for rung in self.rungs
        )

    def _figure(self, rung: Rung) -> str:
        first = self.curve[0]
        beside = f"{first.ours:.4f}, torch {first.reference:.4f}, untrained ln V {self.loss_of_nothing:.4f}; "
        return beside * (rung is self.rungs[0]) + rung.figure


def nearness(row: ValueRow | StepRow) -> float:
    """The share of its limit that an error takes."""
    return row.error / row.limit


def rung(name: str, how: str, rows: Iterable[ValueRow | StepRow]) -> Rung:
    """The promise that all of `rows` are right."""
    worst = max(rows, key=nearness)
    return Rung(name, how, str(worst), worst.error, worst.own, worst.limit)


def _state(ok: bool) -> str:
    return "pass" if ok else "failed"
