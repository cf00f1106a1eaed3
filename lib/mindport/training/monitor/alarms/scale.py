"""The loss scale of float16."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mindport.training.monitor.alarms.history import Finding, History, Plan
from mindport.training.step_record import StepRecord

SETTLE = 25  # steps in which the scale may find its place
SEVERAL, SPAN = 5, 100  # so many halvings within so many steps
OFTEN = 20  # steps of which most overflow
LOWEST = 1.0


def scale_at_minimum(history: History, plan: Plan) -> Finding | None:
    """Even the smallest scale overflows."""
    last = history.last
    if last.moved or last.loss_scale > LOWEST or not plan.loss_scale:
        return None
    return Finding(
        f"the loss scale is {last.loss_scale:g} and step {last.step} overflows all the same",
        ("the gradients themselves are not finite: NaN in a weight, an activation or the loss",
         "float16 overflows in the backward pass of one layer, whatever the scale"),
        "compute with level O0; find_nonfinite (notebook 04) names the first cell that overflows",
    )  # fmt: skip


def scale_falls(history: History, plan: Plan) -> Finding | None:
    """The scale is halved again and again after it had settled."""
    halved = _halvings([record for record in history.steps[-SPAN:] if record.step > SETTLE])
    if not plan.loss_scale or len(halved) < SEVERAL:
        return None
    return Finding(
        f"the loss scale was halved {len(halved)} times in the last {SPAN} steps, to {history.last.loss_scale:g}",
        ("gradients grow: the training is about to diverge",
         "one layer's activations come near 65504, float16's largest"),
        "look at the norm; lower the learning rate, or compute that layer in float32",
    )  # fmt: skip


def overflows(history: History, plan: Plan) -> Finding | None:
    """Most steps are skipped."""
    recent = history.recent(OFTEN)
    skipped = sum(not record.moved for record in recent)
    if not plan.loss_scale or not recent or history.last.step <= SETTLE or 2 * skipped <= OFTEN:
        return None
    return Finding(
        f"{skipped} of the last {OFTEN} steps overflowed and moved nothing",
        ("the loss scale rises too soon: precision.window is too small",
         "the loss or the gradients are not finite at any scale"),
        "a window of 2000 steps is usual; if the scale falls all the time, compute with level O0 to find the cell",
    )  # fmt: skip


def _halvings(steps: Sequence[StepRecord]) -> list[int]:
    """The steps at which the scale fell, since it last rose."""
    falls: list[int] = []
    for before, after in itertools.pairwise(steps):
        if after.loss_scale > before.loss_scale:
            falls = []
        elif after.loss_scale < before.loss_scale:
            falls.append(after.step)
    return falls
