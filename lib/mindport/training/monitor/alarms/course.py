"""The course of loss, gradients and learning rate."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from mindport.training.monitor.alarms.history import Finding, History, Plan, spread
from mindport.training.step_record import StepRecord

WINDOW, ENOUGH = 50, 20  # steps that the last ones are held against, and how many there have to be
TWICE, ONCE = 5.0, 10.0  # deviations: two steps in a row so far up, or one
LEAST_RISE, LEAST_FACTOR = 0.05, 4.0  # of the loss, relative; of the norm
STUCK, FLAT, NEAR = 100, 0.01, 0.02  # steps; relative: change between their halves, and distance from the level
STILL, FEW = 10, 3  # steps without a gradient or a rate; of them, those that were not skipped
VANISHED, LONG = 1e-4, 200  # of the norm that was usual in so many steps before
LEARNT = 0.05  # nats: with so little left to learn, small gradients are right
AGAIN, UNLEARNT, WORSE = 5, 0.3, 1.5  # steps; above the first loss, relative; above ln V, nats
WRECKED = 3  # losses in a row that are no numbers, even if the steps were skipped


def not_finite(history: History, plan: Plan) -> Finding | None:
    """NaN or infinity, where it is no overflow that a smaller loss scale will cure."""
    last = history.last
    if math.isfinite(last.loss) and math.isfinite(last.norm):
        return None
    recent = history.recent(WRECKED)
    wrecked = bool(recent) and not any(math.isfinite(record.loss) for record in recent)
    if plan.loss_scale and not last.moved and not wrecked:
        return None
    skipped = ", the step was skipped" if not last.moved else ""
    return Finding(
        f"loss {last.loss}, norm of the gradients {last.norm}, at learning rate {last.lr:.2e}{skipped}",
        tuple(_causes_of_nan(history, plan)),
        "go back to the last good checkpoint; find_nonfinite (notebook 04) names the first cell that made it",
        fatal=last.moved or last.counted > 0,
    )


def _causes_of_nan(history: History, plan: Plan) -> list[str]:
    norms = [record.norm for record in history.steps[-ENOUGH:-1] if math.isfinite(record.norm)]
    causes = ["the learning rate is too high, or the gradients are not clipped",
              "a division by zero or a logarithm of zero in the model or the loss",
              "the weights or the data hold NaN already"]  # fmt: skip
    if plan.loss_scale:
        causes.insert(
            0, "float16 overflows in the forward pass, where no loss scale helps: compute that part in float32"
        )
    if len(norms) > 1 and norms[-1] > LEAST_FACTOR * statistics.median(norms):
        causes.insert(
            0, f"the gradients had grown: norm {norms[-1]:.3g} before, {statistics.median(norms):.3g} usually"
        )
    if history.last.counted == 0:
        causes.insert(0, "no token of the batch counts, and a mean of none is NaN: all labels are −100")
    return causes


def diverged(history: History, plan: Plan) -> Finding | None:
    """The loss is far above where it began: the run has unlearnt what the model knew, even what it began with."""
    recent = [record.loss for record in history.recent(AGAIN)]
    if not recent or not history.first:
        return None
    began = max(history.first[0], statistics.median(history.first))
    level = min(began + max(1.0, UNLEARNT * began), max(history.first[0], plan.uniform) + WORSE)
    if not min(recent) > level:
        return None
    return Finding(
        f"the loss is {recent[-1]:.3f}, and above {level:.2f} for {AGAIN} steps; it began with {history.first[0]:.3f}, "
        f"and a model that knows nothing has {plan.uniform:.2f}",
        ("the learning rate is too high by far", "the warm-up is missing, or too short for this rate",
         "the gradients are not clipped: optimizer.max_norm: 1.0"),
        "begin again, or at a checkpoint from before, with a tenth of the rate",
    )  # fmt: skip


def loss_spike(history: History, plan: Plan) -> Finding | None:
    """The loss leaves the range that it had, upwards."""
    if history.last.step <= plan.warmup:
        return None
    seen = _jump(history, lambda record: record.loss, lambda middle: LEAST_RISE * abs(middle))
    if seen is None:
        return None
    middle, deviations = seen
    return Finding(
        f"loss {history.last.loss:.3f}, {deviations:.0f} deviations above {middle:.3f}, the median of {WINDOW} steps",
        ("the learning rate is too high for this place: lower it, or warm up longer",
         "unusual rows in this batch: another language, repeated characters, a broken document",
         "after a resume: the optimizer's state, the data's position or the schedule was not restored"),
        "if it does not come down by itself, go back to the checkpoint before it, with a lower rate or past this batch",
    )  # fmt: skip


def norm_spike(history: History, plan: Plan) -> Finding | None:
    """The gradients grow by a multiple."""
    if history.last.step <= plan.warmup or not history.last.moved:
        return None
    seen = _jump(history, lambda record: math.log(max(record.norm, 1e-30)), lambda middle: math.log(LEAST_FACTOR))
    if seen is None:
        return None
    usual = math.exp(seen[0])
    return Finding(
        f"norm of the gradients {history.last.norm:.3g}, where {usual:.3g} was the median of {WINDOW} steps",
        ("the learning rate is too high: a loss spike follows", "unusual rows in this batch",
         "without clipping, one such step can undo many: optimizer.max_norm: 1.0"),
        "watch the loss; if it rises too, lower the rate or go back to the checkpoint before",
    )  # fmt: skip


def _jump(
    history: History, value: Callable[[StepRecord], float], least: Callable[[float], float]
) -> tuple[float, float] | None:
    """The median before, and by how many deviations the last step is above it, if that is an upward jump.

    Means over few tokens vary more: a deviation is for as many tokens as are usual.
    """
    finite = [r for r in history.steps[-WINDOW - 2 :] if r.moved and math.isfinite(r.loss) and math.isfinite(r.norm)]
    before, last = finite[:-2], finite[-2:]
    if len(before) < ENOUGH or finite[-1] is not history.last:
        return None
    values = [value(record) for record in before]
    middle, usual = statistics.median(values), statistics.median(record.counted for record in before)
    scale = max(spread(values), least(middle) / TWICE)
    deviations = [(value(r) - middle) / scale / max(1.0, math.sqrt(usual / max(r.counted, 1))) for r in last]
    return (middle, deviations[-1]) if min(deviations) > TWICE or deviations[-1] > ONCE else None


def no_gradient(history: History, plan: Plan) -> Finding | None:
    """The gradients are zero, or have become next to nothing."""
    recent = [record for record in history.recent(STILL) if record.moved]
    if len(recent) < FEW or max(record.loss for record in recent) < LEARNT:
        return None
    most, usual = max(record.norm for record in recent), _usual_norm(history.steps[-LONG:-STILL])
    if not most <= VANISHED * usual:  # NaN too
        return None
    return Finding(
        f"norm of the gradients {most:.3g} or less in {len(recent)} steps" + f", {usual:.3g} before" * (usual > 0),
        ("all parameters are frozen: requires_grad is False",
         "the loss does not hang on the weights: a detached tensor, or another model than the one that is trained",
         "float16 without a loss scale: small gradients become zero"),
        "print requires_grad of each parameter, then their gradients after one step (mindport verify --steps 1)",
    )  # fmt: skip


def _usual_norm(steps: Sequence[StepRecord]) -> float:
    norms = [record.norm for record in steps if math.isfinite(record.norm)]
    return statistics.median(norms) if norms else 0.0


def no_rate(history: History, plan: Plan) -> Finding | None:
    """Nothing is learnt at a rate of 0."""
    recent = history.recent(STILL)
    if not recent or any(record.lr > 0 for record in recent):
        return None
    ended = f"the schedule ended at step {plan.steps}"
    early = "the schedule ends earlier than the run: its total steps are not the run's"
    return Finding(
        f"the learning rate has been 0 since step {recent[0].step} or longer, and the weights stand still",
        (ended if history.last.step > plan.steps else early, "the configured rate is 0",
         "after a resume: the schedule's step was restored twice"),
        "compare schedule and optimizer.lr with the run's steps",
    )  # fmt: skip


def plateau(history: History, plan: Plan) -> Finding | None:
    """The loss stays where a model is that has learnt nothing, or nothing but how frequent tokens are."""
    recent = [r.loss for r in history.recent(STUCK) if math.isfinite(r.loss) and r.step > plan.warmup and r.lr > 0]
    if len(recent) < STUCK:
        return None
    first, second = statistics.median(recent[: STUCK // 2]), statistics.median(recent[STUCK // 2 :])
    levels = {
        "ln V: no more than chance": plan.uniform,
        "the entropy of single tokens: no context is used": plan.entropy,
    }
    for name, level in levels.items():
        if level and abs(second / level - 1) < NEAR and abs(second - first) < FLAT * level:
            return Finding(
                f"the loss has been about {second:.3f} for {STUCK} steps, which is {name} ({level:.3f})",
                ("the learning rate is too low by a factor of ten or more, or the weights are frozen",
                 "labels and inputs do not belong together: shuffled apart, or shifted twice",
                 "attention sees nothing: its mask hides all, or positions are missing"),
                "let the model learn one batch by heart: a sound one comes near a loss of 0 in about a hundred steps",
            )  # fmt: skip
    return None
