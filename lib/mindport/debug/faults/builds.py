"""How each fault of a training step is built: the right step with one wrong part, or by a recipe read wrongly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from mindport.debug.faults import optimizers, steps
from mindport.model import GPT, NextTokenLoss
from mindport.parity.ours_training import Build, training_step
from mindport.parity.recipe import Recipe
from mindport.training import Constant, Cosine, Schedule, TrainStep


def made(
    *,
    loss: type[NextTokenLoss] = NextTokenLoss,
    optimizer: type[optimizers.Wrong] = optimizers.Wrong,
    schedule: type[Cosine] = Cosine,
    step: type[TrainStep] = TrainStep,
    clipped: bool = True,
    first: Callable[[GPT], Any] = lambda model: None,
) -> Build:
    """What builds a step of these parts; those that are not named are right. `first` does something to the model."""

    def build(model: GPT, told: Recipe) -> TrainStep:
        first(model)
        curve = schedule(told.lr, total=told.total_steps, warmup=told.warmup_steps)
        chosen = optimizer(model.trainable_params(), told)
        return step(model, loss(model), chosen, curve, told.max_norm if clipped else None)

    return build


def misread(change: Callable[[Recipe], dict[str, Any]]) -> Build:
    """What builds the right step of a recipe with other numbers."""
    return lambda model, told: training_step(model, dataclasses.replace(told, **change(told)))


def constant(lr: float, **_: int) -> Schedule:
    """In the place of a cosine."""
    return Constant(lr)


BUILDS: dict[str, Build] = {
    "nothing_loaded": lambda model, told: training_step(GPT(model.config), told),
    "stale_weights": made(first=steps.grow),
    "dropout_on": made(first=steps.unseeded, step=steps.Dropping),
    "not_deterministic": made(step=steps.Noisy),
    "label_shift_missing": made(loss=steps.Unshifted),
    "label_shift_twice": made(loss=steps.TwiceShifted),
    "padding_counted": made(loss=steps.Padding),
    "mean_over_all": made(loss=steps.OverAll),
    "loss_summed": made(loss=steps.Summed),
    "mean_of_means": made(loss=steps.OfMeans),
    "micro_batch_dropped": made(loss=steps.Dropped),
    "loss_scale_kept": made(step=steps.Scaled),
    "accumulation_summed": made(step=steps.Accumulated),
    "gradient_sign": made(step=steps.Opposite),
    "detached": made(first=steps.detach_query),
    "tied_one_side": made(first=steps.detach_head),
    "clip_missing": made(clipped=False),
    "clip_after_step": made(optimizer=optimizers.ClipAfter),
    "clip_per_tensor": made(step=steps.PerTensor),
    "clip_before_unscale": made(step=steps.ClippedScaled),
    "no_bias_correction": made(optimizer=optimizers.Uncorrected),
    "adam_weight_decay": made(optimizer=optimizers.AdamWeightDecay),
    "step_not_counted": made(optimizer=optimizers.NotCounted),
    "eps_inside_root": made(optimizer=optimizers.EpsInside),
    "eps_before_correction": made(optimizer=optimizers.EpsEarly),
    "eps_value": misread(lambda told: {"eps": 1e-6}),
    "betas": misread(lambda told: {"betas": (told.betas[0], 0.999)}),
    "l2_not_decoupled": made(optimizer=optimizers.L2),
    "decay_missing": misread(lambda told: {"weight_decay": 0.0}),
    "decay_on_all": misread(lambda told: {"no_decay": ()}),
    "state_not_kept": made(optimizer=optimizers.Forgetful),
    "frozen_weight": made(optimizer=optimizers.Frozen),
    "narrow": made(optimizer=optimizers.Halved),
    "rate_not_used": made(optimizer=optimizers.PeakRate),
    "schedule_late": made(schedule=steps.LateCosine),
    "schedule_early": made(schedule=steps.EarlyCosine),
    "schedule_per_micro_batch": made(schedule=steps.OftenCosine),
    "constant_rate": made(schedule=constant),
    "warmup_missing": misread(lambda told: {"warmup_steps": 0}),
    "total_wrong": misread(lambda told: {"total_steps": 2 * told.total_steps}),
}
