"""What the training starts from: the weights, and the order of the batches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mindport.config import from_dict
from mindport.debug.diagnosis.cause import Cause
from mindport.debug.diagnosis.training.causes import cause
from mindport.debug.diagnosis.training.steps import SCALAR, Steps, apart
from mindport.errors import some

NOTHING = 0.05  # of ln V: a loss as near as that knows nothing


def explain_start(steps: Steps) -> list[Cause]:
    """Weights that are not the checkpoint's; batches in another order."""
    return _weights(steps) or _order(steps)


def _weights(steps: Steps) -> list[Cause]:
    start = "weight/0/"
    other = [name for name in steps.names if not np.array_equal(steps.mine(start + name), steps.right(start + name))]
    if not other:
        return []
    loss, nothing = float(steps.mine("loss")[0]), math.log(from_dict(steps.reference.about["model"]).vocab_rows)
    evidence = f"before step 1 {len(other)} of {len(steps.names)} parameters are not the checkpoint's: {some(other)}"
    if abs(loss / nothing - 1) <= NOTHING:
        losses = f"our loss at step 0 is {loss:.4g}, ln V is {nothing:.4g}, torch's loss {steps.right('loss')[0]:.4g}"
        return [cause("nothing_loaded", f"{losses}; {evidence}")]
    later = _later(steps, other)
    return [cause("stale_weights", evidence + f"; they are torch's after {later} steps" * bool(later))]


def _later(steps: Steps, names: Sequence[str]) -> int:
    """The number of torch's steps after which its weights are those that we begin with; 0 when there is none."""
    for t in range(1, len(steps.right("loss")) + 1):
        pairs = [(f"weight/0/{name}", f"weight/{t}/{name}") for name in names]
        if all(then in steps.reference and np.array_equal(steps.mine(now), steps.right(then)) for now, then in pairs):
            return t
    return 0


def _order(steps: Steps) -> list[Cause]:
    """While the first rate is 0, steps 0 and 1 have the same weights: their losses show who got which batch."""
    ours, right = steps.mine("loss"), steps.right("loss")
    if min(len(ours), len(right)) < 2 or float(steps.right("lr")[0]) or apart(ours[0], right[0]) <= SCALAR:
        return []
    evidence = f"our losses begin {ours[0]:.7g}, {ours[1]:.7g}, torch's {right[0]:.7g}, {right[1]:.7g}; the rate is 0"
    if apart(ours[0], right[1]) <= SCALAR:
        return [cause("batches_early", evidence)]
    return [cause("batches_late", evidence)] if apart(ours[1], right[0]) <= SCALAR else []
