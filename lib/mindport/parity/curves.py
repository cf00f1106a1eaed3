"""Two courses of the same training, step by step: NumPy only, neither framework is needed.

A course that goes wrong says by where it begins what is wrong: the rate has nothing below it, the first loss has only
weights and batch, the first norm the gradients; what is right until the weights have moved, is right but for the move.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from mindport.results import Property, Result, plain, verdict
from mindport.tables import Table

Quantity = Literal["lr", "counted", "loss", "norm"]
# Where a norm leaps, the weights' last digits show in it: 1.5e-3 beside losses within 1.2e-5 of each other
LIMITS: dict[Quantity, float] = {"lr": 1e-6, "counted": 0.0, "loss": 1e-4, "norm": 1e-2}
FIRST: dict[Quantity, float] = {**LIMITS, "norm": 1e-4}  # of the steps up to the first that moves the weights
SAYS: dict[Quantity, str] = {"lr": "learning rate", "counted": "tokens that count", "loss": "loss", "norm": "norm"}
ROUNDING = 2.0  # so many times as far from float64 as torch is still rounding
SHOWN = 12  # steps of a long run that the table shows


@dataclass(frozen=True)
class Ran:
    """A training that one side has done.

    Attributes:
        who: made it.
        loss, norm, lr, counted: of each step, as in `training.StepRecord`.
        tokens, seconds: that went through the model in each step, and its wall time.
        held_out: loss in nats on the same rows before and after; none where nothing was held out.
        memory: megabytes before the model was made, and at the peak.
        threads: it computed with.
        versions: of its packages.
    """

    who: str
    loss: tuple[float, ...]
    norm: tuple[float, ...]
    lr: tuple[float, ...]
    counted: tuple[int, ...]
    tokens: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    held_out: tuple[float, ...] = ()
    memory: tuple[float, ...] = ()
    threads: int = 0
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Tokens a second, the median over the steps; the first, in which graphs are compiled, is left out."""
        timed = [n / s for n, s in zip(self.tokens[1:], self.seconds[1:], strict=True) if s > 0]
        return statistics.median(timed) if timed else math.nan

    @property
    def growth(self) -> float:
        """Megabytes that model and training took."""
        return self.memory[1] - self.memory[0] if self.memory else math.nan


@dataclass(frozen=True)
class Course:
    """One quantity over all steps.

    Attributes:
        quantity: which.
        ours, reference: its values.
        errors: how far apart; of norms over the reference's, of rates over the largest.
        own, mine: the same between torch in float32 and in float64, and between ours and that, where it was asked for.
        limits: for each error.
    """

    quantity: Quantity
    ours: tuple[float, ...]
    reference: tuple[float, ...]
    errors: tuple[float, ...]
    own: tuple[float, ...]
    mine: tuple[float, ...]
    limits: tuple[float, ...]

    @property
    def ok(self) -> bool:
        return self.first_red is None

    @property
    def worst(self) -> int:
        """The step, counted from 1, whose error is largest beside its limit; what is no number is larger than all."""
        within = [error / limit if limit else error for error, limit in zip(self.errors, self.limits, strict=True)]
        return max(range(len(within)), key=lambda n: (math.isnan(within[n]), within[n])) + 1

    @property
    def error(self) -> float:
        return self.errors[self.worst - 1]

    @property
    def limit(self) -> float:
        """For the worst step."""
        return self.limits[self.worst - 1]

    @property
    def first_red(self) -> int | None:
        """The first step, counted from 1, that is beyond its limit."""
        steps = enumerate(zip(self.errors, self.limits, strict=True), 1)
        return next((n for n, (error, limit) in steps if not error <= limit), None)

    @property
    def figure(self) -> str:
        """Its worst step."""
        return self._at(self.worst)

    @property
    def where_red(self) -> str:
        """The first step beyond its limit."""
        return self._at(self.first_red or self.worst)

    def _at(self, step: int) -> str:
        own = f"; from float64 ours {max(self.mine):.1e}, torch {max(self.own):.1e}" if self.own else ""
        return f"{self.errors[step - 1]:.1e} at step {step} (limit {self.limits[step - 1]:.0e}){own}"

    @property
    def is_rounding(self) -> bool:
        """Whether torch, when the two part, has left its own course in float64 about as far as ours has or farther."""
        step = self.first_red
        return bool(step and self.own) and max(self.mine[:step]) <= ROUNDING * max(self.own[:step])


@dataclass(frozen=True, kw_only=True)
class CurveReport(Result):
    """Our training beside torch's: the same weights, batches, optimizer and schedule.

    Attributes:
        model: what was trained.
        ours, reference: both trainings.
        exact: torch's in float64, where that was asked for.
        recipe: optimizer, schedule and number of steps.
        accumulate: passes of a step.
        notes: what is to be known of the reference.
        device: MindSpore's.
    """

    model: str
    ours: Ran
    reference: Ran
    exact: Ran | None
    recipe: dict[str, Any]
    accumulate: int
    notes: tuple[str, ...] = ()
    device: str = "CPU"

    @cached_property
    def courses(self) -> tuple[Course, ...]:
        """From the bottom to the top: within a step, what stands on a red one is red because of it."""
        return tuple(_course(quantity, self.ours, self.reference, self.exact) for quantity in LIMITS)

    def course(self, quantity: Quantity) -> Course:
        """One of them."""
        return next(course for course in self.courses if course.quantity == quantity)

    @property
    def steps(self) -> int:
        return len(self.reference.loss)

    @property
    def held_out_error(self) -> float:
        """The larger difference, before or after, of the losses on held-out text; 0 where nothing was held out."""
        pairs = zip(self.ours.held_out, self.reference.held_out, strict=True)
        return max((_number(abs(ours - its)) for ours, its in pairs), default=0.0)

    @property
    def ok(self) -> bool:
        return all(course.ok for course in self.courses) and self.held_out_error <= LIMITS["loss"]

    @property
    def first_red(self) -> Course | None:
        """The lowest course of the first step at which any is beyond its limit."""
        red = [course for course in self.courses if course.first_red is not None]
        return min(red, key=lambda course: course.first_red or 0) if red else None

    @property
    def speed(self) -> float:
        """Our tokens a second over torch's."""
        return self.ours.rate / self.reference.rate

    @property
    def memory(self) -> float:
        """Our growth of memory over torch's."""
        return self.ours.growth / self.reference.growth

    def headline(self) -> str:
        beside = f"{self.speed:.2f} × its tokens a second, {self.memory:.2f} × its memory"
        if red := self.first_red:
            said = f"the {SAYS[red.quantity]} leaves torch's course: {red.where_red}"
            return f"{said}; {self.reading()}; {beside}"
        if not self.ok:
            return f"the losses on held-out text are {self.held_out_error:.1e} apart (limit {LIMITS['loss']:.0e})"
        return f"{self.steps} steps go the way of torch: losses within {self.course('loss').figure}; {beside}"

    def reading(self) -> str:
        """Where to look, by the step and the quantity that are red first; nothing where none is."""
        red = self.first_red
        if red is None:
            return ""
        if red.quantity == "lr":
            return f"the schedule{_shifted(red)}"
        if red.quantity == "counted":
            return "other batches, or other labels in them"
        if (red.first_red or 0) <= _moved(self.reference):
            parts = "how the parts of an accumulated step are weighted, " * (self.accumulate > 1)
            names = {"loss": "the weights, the batch or the forward pass (`mindport verify` names it)",
                     "norm": "the gradients (`mindport verify --steps` names them)"}  # fmt: skip
            return f"no weight has moved yet: {parts}{names[red.quantity]}"
        if red.is_rounding:
            return "float32 itself: torch leaves its own course in float64 as well; a smaller rate keeps all together"
        return "right until the weights had moved: the optimizer or the clipping (`mindport verify --steps` names it)"

    def tables(self) -> tuple[Table, ...]:
        tables = (self._verdicts(), self._sides(), self._held_out(), self._steps(), self._notes())
        return tuple(table for table in tables if table.rows)

    def _verdicts(self) -> Table:
        rows = [
            (SAYS[c.quantity], c.error, c.worst, c.limit, max(c.mine, default=None), max(c.own, default=None),
             _state(c.ok)) for c in self.courses
        ]  # fmt: skip
        columns = ("at every step", "nearest to its limit", "at step", "limit", "ours from float64",
                   "torch from float64", "state")  # fmt: skip
        return Table(f"{self.steps} steps beside torch", columns, rows)

    def _sides(self) -> Table:
        rows = [
            (ran.who, ran.rate, ran.growth, ran.memory[1] if ran.memory else None, ran.threads, sum(ran.seconds))
            for ran in (self.ours, self.reference)
        ]  # fmt: skip
        rows.append(("ours / torch", self.speed, self.memory, None, None, None))
        columns = ("who", "tokens a second", "memory, MB", "peak, MB", "threads", "seconds, all steps")
        return Table("side by side, one after the other: `mindport bench train` times them in turn", columns, rows)

    def _held_out(self) -> Table:
        rows = [(ran.who, *(x for loss in ran.held_out for x in (f"{loss:.6f}", f"{math.exp(loss):.4f}")))
                for ran in (self.ours, self.reference) if ran.held_out]  # fmt: skip
        columns = ("who", "loss before", "perplexity before", "loss after", "perplexity after")
        return Table("held-out text", columns, rows)

    def _steps(self) -> Table:
        """Some of the steps, evenly; the JSON has all."""
        loss, norm = self.course("loss"), self.course("norm")
        shown = sorted({*np.linspace(0, self.steps - 1, SHOWN).round().astype(int).tolist(), loss.worst - 1})
        rows = [
            (n + 1, f"{loss.ours[n]:.6f}", f"{loss.reference[n]:.6f}", loss.errors[n], f"{norm.ours[n]:.5g}",
             f"{norm.reference[n]:.5g}", norm.errors[n], f"{self.ours.lr[n]:.4g}")
            for n in shown
        ]  # fmt: skip
        columns = ("step", "loss", "torch", "apart", "norm", "torch's", "apart, relative", "rate")
        return Table("step by step", columns, rows)

    def _notes(self) -> Table:
        return Table("to be known", ("note",), [(note,) for note in self.notes])

    def properties(self) -> tuple[Property, ...]:
        how = f"{self.steps} steps of {self.model}: the same weights, batches, optimizer and schedule in transformers"
        lines = [
            verdict(f"the {SAYS[course.quantity]} of every training step is PyTorch's", course.ok, how, course.figure,
                    self.device)
            for course in self.courses if course.quantity != "counted"
        ]  # fmt: skip
        if self.ours.held_out:
            (before, after), error = self.ours.held_out, self.held_out_error
            figure = f"perplexity {math.exp(before):.3f} → {math.exp(after):.3f}, losses within {error:.1e}"
            lines.append(
                verdict(
                    "the loss on held-out text is PyTorch's, before and after",
                    error <= LIMITS["loss"],
                    how,
                    figure,
                    self.device,
                )
            )
        return tuple(lines)

    def as_dict(self) -> dict[str, Any]:
        worst = {course.quantity: [course.worst, plain(course.error)] for course in self.courses}
        return {
            **super().as_dict(), "speed": plain(self.speed), "memory_ratio": plain(self.memory),
            "reading": self.reading(), "limits": dict(LIMITS), "first_limits": dict(FIRST), "worst": worst,
        }  # fmt: skip


def _course(quantity: Quantity, ours: Ran, reference: Ran, exact: Ran | None) -> Course:
    mine, its = getattr(ours, quantity), getattr(reference, quantity)
    own, far = (_apart(quantity, x, getattr(exact, quantity)) if exact else () for x in (its, mine))
    moved = _moved(reference)
    limits = tuple((FIRST if n <= moved else LIMITS)[quantity] for n in range(1, len(its) + 1))
    return Course(quantity, mine, its, _apart(quantity, mine, its), own, far, limits)


def _moved(ran: Ran) -> int:
    """The first step that moves the weights: what is seen up to it, is seen of the first weights."""
    return next((n for n, lr in enumerate(ran.lr, 1) if lr > 0), len(ran.lr))


def _apart(quantity: Quantity, x: Sequence[float], y: Sequence[float]) -> tuple[float, ...]:
    mine, its = np.array(x, np.float64), np.array(y, np.float64)
    scale: Any = {"norm": np.abs(its), "lr": np.nan_to_num(np.abs(its)).max(initial=0.0)}.get(quantity, 1.0)
    with np.errstate(all="ignore"):
        apart = np.abs(mine - its) / np.where(scale == 0, 1.0, scale)
    return tuple(np.where(np.isnan(mine) & np.isnan(its), 0.0, apart).tolist())  # steps in which no token counts


def _shifted(course: Course) -> str:
    """Whether a course is the other's, some steps earlier or later."""
    ours, its = np.array(course.ours), np.array(course.reference)
    near = LIMITS[course.quantity] * np.nanmax(np.abs(its))
    if len(its) > 1 and np.all(np.abs(ours[:-1] - its[1:]) <= near):
        return ", which is a step ahead"
    if len(its) > 1 and np.all(np.abs(ours[1:] - its[:-1]) <= near):
        return ", which is a step behind"
    return ""


def _number(error: float) -> float:
    return math.inf if math.isnan(error) else error


def _state(ok: bool) -> str:
    return "pass" if ok else "failed"
