"""The first loss: it is known beforehand what it can be."""

from __future__ import annotations

import math

from mindport.training.monitor.alarms.history import Finding, History, Plan

ABOVE, BELOW = 1.5, 0.5  # nats from ln V that random weights may be: logits of deviation s add s² / 2
BLANK = 0.95  # of ln V: whose loss is so high, knows nothing
LEAST = 0.2  # nats: no model foresees text so well that it has not seen


def leak(history: History, plan: Plan) -> Finding | None:
    """The first loss is lower than can be."""
    first, least = _first(history), LEAST if plan.start == "pretrained" else plan.uniform - BELOW
    if first is None or first >= least:
        return None
    who = "a model that has learnt nothing" if plan.start == "scratch" else "any model"
    causes = [
        "the labels are the inputs: the shift by one is missing",
        "a position sees later ones: the causal mask is missing, or the wrong way round",
        "the training text is the text that the model has learnt already"
        if plan.start == "pretrained" else "the weights are not random: a checkpoint was loaded",
    ]  # fmt: skip
    return Finding(
        f"the first loss is {first:.3f}; of {who} it is {least:.2f} or more (ln V = {plan.uniform:.2f})", tuple(causes),
        "look at one row of ids and labels, and change its last token: no earlier logit may change (mindport faultlab)",
    )  # fmt: skip


def blank(history: History, plan: Plan) -> Finding | None:
    """A pretrained model begins as if it knew nothing."""
    first = _first(history)
    if first is None or plan.start != "pretrained" or first < BLANK * plan.uniform:
        return None
    return Finding(
        f"the first loss is {first:.3f}, as of a model that knows nothing (ln V = {plan.uniform:.2f})",
        ("no weights were loaded, or into another model than the one that is trained",
         "the ids come from another tokenizer than the model's",
         "the labels were shifted twice, beforehand and in the loss: it predicts the token after the next",
         "the weights are not trained yet: then begin with `start: scratch`"),
        "mindport verify DIR: it compares the model with its origin, layer by layer",
    )  # fmt: skip


def wild(history: History, plan: Plan) -> Finding | None:
    """Random weights are too large."""
    first = _first(history)
    if first is None or plan.start != "scratch" or first <= plan.uniform + ABOVE:
        return None
    deviation = math.sqrt(2 * (first - plan.uniform))
    return Finding(
        f"the first loss is {first:.3f}, {first - plan.uniform:.2f} above ln V = {plan.uniform:.2f}: "
        f"the logits deviate by about {deviation:.1f}",
        ("the initial weights are too large: a deviation of 0.02 is usual, less in what adds to the residual",
         "the last norm is missing, or the head is scaled"),
        "look at the deviation of each weight; the config's initializer_range says what was meant",
    )  # fmt: skip


def _first(history: History) -> float | None:
    """The loss of the run's first step while it is the last; None afterwards, and of no number."""
    return history.last.loss if history.last.step == 1 and math.isfinite(history.last.loss) else None
