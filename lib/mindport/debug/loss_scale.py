"""What a dynamic loss scaler did, told from its history: where the scale only falls, scaling is not the matter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mindport.errors import UsageError
from mindport.results import Result
from mindport.tables import Table

COLLAPSE = 5  # overflows in a row after which no scale will help: a factor of 32
MINIMUM = 1.0  # MindSpore's scaler stops there


@dataclass(frozen=True)
class ScaledStep:
    """One step under a loss scaler.

    Attributes:
        scale: with which the loss was multiplied.
        finite: whether all gradients were.
        updates: how many updates the optimizer has made after this step.
    """

    scale: float
    finite: bool
    updates: int


@dataclass(frozen=True)
class LossScaleReport(Result):
    """The steps, and what is wrong with them.

    Attributes:
        steps: in order.
        collapsed_at: the step with which the row of overflows begins that does not end; None without one.
        wrong_updates: steps that were skipped and counted all the same, or taken and not counted.
        unmoved: steps after an overflow that did not lower the scale, where it was not at its minimum.
        at_minimum: overflows at the smallest scale there is.
    """

    steps: tuple[ScaledStep, ...]
    collapsed_at: int | None
    wrong_updates: tuple[int, ...]
    unmoved: tuple[int, ...]
    at_minimum: int

    @property
    def ok(self) -> bool:
        return self.collapsed_at is None and not self.wrong_updates and not self.unmoved

    @property
    def skipped(self) -> int:
        return sum(not step.finite for step in self.steps)

    def headline(self) -> str:
        counts = f"{self.skipped} of {len(self.steps)} steps skipped, the scale went from {self.steps[0].scale:g} to " \
                 f"{self.steps[-1].scale:g}"  # fmt: skip
        return f"{counts}: {self.findings()[0]}"

    def scales(self) -> list[float]:
        """The scale of each step, for a plot."""
        return [step.scale for step in self.steps]

    def findings(self) -> list[str]:
        """What to make of it, the gravest first."""
        found = []
        if self.collapsed_at is not None:
            found.append(f"collapse: from step {self.collapsed_at} on a gradient is not finite, however small the "
                         f"scale ({self.at_minimum} times at its minimum); no scale will help, find the value "
                         "(debug.find_nonfinite)")  # fmt: skip
        if self.wrong_updates:
            found.append(f"steps {list(self.wrong_updates)} were skipped and counted as updates (or the reverse): the "
                         "schedule and Adam's bias correction run ahead of the weights")  # fmt: skip
        if self.unmoved:
            found.append(f"after the overflows of steps {list(self.unmoved)} the scale did not fall")
        return found or ["sound: an overflow is skipped, the scale falls, and training goes on"]

    def tables(self) -> tuple[Table, ...]:
        rows = [(i, s.scale, "yes" if s.finite else "no", "taken" if s.finite else "skipped", s.updates)
                for i, s in enumerate(self.steps)]  # fmt: skip
        return (Table("step by step", ("step", "scale", "gradients finite", "update", "updates so far"), rows),)


def explain_loss_scale(history: Sequence[ScaledStep]) -> LossScaleReport:
    """Judge the history of a dynamic loss scaler.

    Sound is: an overflow skips the update, no counter advances, and the scale falls for the next step, down to a
    minimum; a single overflow now and then is how the scaler finds its place.

    Args:
        history: the steps, in order.

    Raises:
        UsageError: there are none, or a scale is no positive number.
    """
    steps = tuple(history)
    if not steps or any(not step.scale > 0 or math.isinf(step.scale) for step in steps):
        raise UsageError("this is no history of a loss scaler", got=f"{len(steps)} steps",
                         expected="steps with a positive, finite scale each")  # fmt: skip
    pairs = list(enumerate(pairwise(steps)))
    before = (0, *(step.updates for step in steps))
    wrong = tuple(i for i, step in enumerate(steps) if step.updates - before[i] != int(step.finite))
    unmoved = tuple(i for i, (one, next_) in pairs if not one.finite and next_.scale >= one.scale > MINIMUM)
    at_minimum = sum(not step.finite and step.scale <= MINIMUM for step in steps)
    return LossScaleReport(steps, _collapse(steps), wrong, unmoved, at_minimum)


def _collapse(steps: tuple[ScaledStep, ...]) -> int | None:
    """Where a row of overflows begins that lasts to the end and is long enough."""
    last = max((i for i, step in enumerate(steps) if step.finite), default=-1)
    return last + 1 if len(steps) - 1 - last >= COLLAPSE else None
