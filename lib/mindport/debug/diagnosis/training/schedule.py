"""The curve of the learning rate: the right one moved, cut short, stretched, or taken by another count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from mindport.debug.diagnosis.cause import Cause
from mindport.debug.diagnosis.training.causes import SIGN, cause
from mindport.debug.diagnosis.training.steps import ROUNDING, SCALAR, Steps, apart
from mindport.parity.recipe import Recipe

SHOWN = 4  # rates in a line of evidence
OTHER_LENGTHS = 20  # times the right one: as far as a wrong length is looked for
PER_STEP = range(2, 9)  # micro-batches of a step


@dataclass(frozen=True)
class Curve:
    """A schedule that would be wrong: the cause it is, its rates, and what to say of it."""

    name: str
    rates: np.ndarray
    details: Mapping[str, int] = field(default_factory=dict)


def explain_schedule(steps: Steps) -> list[Cause]:
    """The wrong schedule that makes our rates, if they are not torch's."""
    count = min(len(steps.mine("lr")), len(steps.right("lr")))
    ours, right = steps.mine("lr")[:count], steps.right("lr")[:count]
    if apart(ours, right) <= SCALAR:
        return []
    evidence = f"our rates are {_shown(ours)}; torch's {_shown(right)}"
    for curve in curves(steps.recipe, np.arange(count)):
        if apart(ours, curve.rates) <= ROUNDING:
            return [cause(curve.name, evidence, **curve.details)]
    return [cause("other_schedule", evidence, SIGN)]


def curves(told: Recipe, at: np.ndarray) -> Iterator[Curve]:
    """Every wrong schedule that is known, at the steps `at`, counted from 0; what is more usual first."""
    rising, total = told.warmup_steps, told.total_steps
    yield Curve("schedule_late", rate(told, np.maximum(at - 1, 0)))
    yield Curve("schedule_early", rate(told, at + 1))
    yield Curve("constant_rate", np.full(len(at), told.lr))
    yield Curve("warmup_missing", rate(told, at, warmup=0))
    yield Curve("warmup_missing", rate(told, np.maximum(at, rising)))
    yield Curve("no_decay_of_rate", rate(told, np.minimum(at, rising)))
    yield Curve("other_form", rate(told, at, cosine=False))
    for n in PER_STEP:
        yield Curve("schedule_per_micro_batch", rate(told, n * at), {"times": n})
    for got in range(rising + 1, OTHER_LENGTHS * total):
        yield Curve("total_wrong", rate(told, at, total=got), {"got": got, "told": total})
    for got in range(total):
        yield Curve("warmup_wrong", rate(told, at, warmup=got), {"got": got, "told": rising})


def rate(
    told: Recipe, step: np.ndarray, *, warmup: int | None = None, total: int | None = None, cosine: bool = True
) -> np.ndarray:
    """The rates of steps counted from 0, with transformers' arithmetic."""
    rising = told.warmup_steps if warmup is None else warmup
    done = (step - rising) / max(1, (total or told.total_steps) - rising)
    falling = 0.5 * (1 + np.cos(np.pi * done)) if cosine else np.maximum(0, 1 - done)
    return told.lr * np.where(step < rising, step / max(1, rising), falling)


def _shown(rates: np.ndarray) -> str:
    return ", ".join(f"{rate:.4g}" for rate in rates[:SHOWN]) + " …" * (len(rates) > SHOWN)
