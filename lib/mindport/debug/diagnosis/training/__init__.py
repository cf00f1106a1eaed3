"""What is wrong with a training that differs from torch's: from two traces, by reproducing in NumPy what it would be.

    start        weights that are not the checkpoint's, batches in another order
    loss         which labels, which count, divided by what
    gradients    multiplied, missing, half of a tied one
    moments      clipping, betas, L2, state that is lost
    update       the arithmetic of the step
    schedule     the curve of the rate
    narrow       half precision where float32 should be
    repeat       two runs that differ, and losses that part later

Each looks at what its stage was given by *our* run, so that a mistake is not seen again in the stages after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mindport.debug.diagnosis.cause import Cause, Evidence
from mindport.debug.diagnosis.training.causes import CERTAIN, SIGN, SYMPTOM
from mindport.debug.diagnosis.training.gradients import explain_gradients
from mindport.debug.diagnosis.training.loss import explain_loss
from mindport.debug.diagnosis.training.moments import explain_moments
from mindport.debug.diagnosis.training.narrow import explain_precision
from mindport.debug.diagnosis.training.repeat import explain_curves, explain_repeat
from mindport.debug.diagnosis.training.schedule import explain_schedule
from mindport.debug.diagnosis.training.start import explain_start
from mindport.debug.diagnosis.training.steps import Steps
from mindport.debug.diagnosis.training.update import explain_update

STAGES: tuple[Callable[[Steps], list[Cause]], ...] = (
    explain_repeat, explain_start, explain_loss, explain_precision, explain_gradients, explain_moments, explain_update,
    explain_schedule, explain_curves,
)  # fmt: skip
FINER = {"clip_after_step": "clip_missing", "l2_not_decoupled": "decay_missing"}  # says more than


def explain(evidence: Evidence) -> list[Cause]:
    """The causes that the training traces speak for, in the order of a step; none without traces."""
    reference, ours = evidence.training_reference, evidence.training_ours
    if reference is None or ours is None:
        return []
    with np.errstate(all="ignore"):  # what is not finite is a difference like any other
        modes = ours.about["modes"].items()
        told = {mode: _told(Steps(reference, ours, evidence.training_again, under)) for mode, under in modes}
    return [_where(cause, mode, told) for mode, causes in told.items() for cause in causes]


def _where(cause: Cause, mode: str, told: Mapping[str, list[Cause]]) -> Cause:
    """The cause; if another mode does not have it, it says so."""
    if all(any(other.name == cause.name for other in causes) for causes in told.values()):
        return cause
    return replace(cause, evidence=f"in {mode} mode only: {cause.evidence}")


def _told(steps: Steps) -> list[Cause]:
    """All causes without what a finer one says better, and without symptoms where something explains them."""
    causes = [cause for stage in STAGES for cause in stage(steps)]
    said = {FINER.get(cause.name) for cause in causes}
    least = SIGN if any(cause.score == CERTAIN for cause in causes) else SYMPTOM
    return [cause for cause in causes if cause.name not in said and cause.score >= least]
