"""Two runs of ours that should be equal bit for bit, and losses that part in a later step."""

from __future__ import annotations

import numpy as np

from mindport.debug.diagnosis.cause import Cause
from mindport.debug.diagnosis.training.causes import SYMPTOM, cause
from mindport.debug.diagnosis.training.steps import SCALAR, Steps, apart
from mindport.parity.trace import Trace

PARTED = 1e-3  # relative: far beyond what rounding grows to in some steps


def explain_repeat(steps: Steps) -> list[Cause]:
    """What differs between two runs of ours, if anything does."""
    if steps.again is None:
        return []
    one, other = steps.mine("loss"), steps.again[f"{steps.mode}loss"].astype(np.float64)
    if apart(other[0], one[0]) > SCALAR:
        evidence = f"the loss at step 0 is {one[0]:.7g} in one run and {other[0]:.7g} in another, on the same batch"
        return [cause("dropout_on", evidence)]
    if differ := differing(steps.ours, steps.again):
        evidence = f"the loss at step 0 is {one[0]:.7g} twice; {len(differ)} arrays differ, first {differ[0]}"
        return [cause("not_deterministic", evidence)]
    return []


def explain_curves(steps: Steps) -> list[Cause]:
    """The first step whose loss is another, where all before it was right."""
    count = min(len(steps.mine("loss")), len(steps.right("loss")))
    ours, right = steps.mine("loss")[:count], steps.right("loss")[:count]
    part = np.flatnonzero(~(np.abs(ours - right) <= PARTED * np.abs(right)))
    if not len(part) or part[0] == 0:
        return []  # a loss of step 0 is looked at by itself
    at = int(part[0])
    evidence = (
        f"ours is {ours[at]:.6g}, torch's {right[at]:.6g}; one step before {ours[at - 1]:.6g}, {right[at - 1]:.6g}"
    )
    return [cause("losses_part", evidence, SYMPTOM, step=at)]


def differing(one: Trace, other: Trace) -> list[str]:
    """Names of the arrays that are not equal bit for bit."""
    return [name for name, x in one.arrays.items() if name not in other or not np.array_equal(x, other[name])]
