"""Faults of a training step: what it is built of, what it is told, or what it is fed. PyNative mode, a few steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config.model_config import ModelConfig
from mindport.debug.diagnosis.engine import Evidence, diagnose
from mindport.debug.faults import optimizers, steps
from mindport.debug.faults.fault import Fault, Ground
from mindport.model import GPT, NextTokenLoss
from mindport.parity.ours_training import observe_training, training_step
from mindport.parity.recipe import Recipe
from mindport.parity.trace import Trace
from mindport.training import Constant, Cosine, TrainStep

CERTAIN = 0.5  # a score from which on no second run is needed


@dataclass(frozen=True, kw_only=True)
class TrainingFault(Fault):
    """One mistake in a training.

    Attributes:
        build: makes the wrong step.
        feed: what the reference was fed → what we feed.
    """

    build: Callable[[GPT, Recipe], TrainStep] = training_step
    feed: Callable[[Trace], Trace] = lambda reference: reference
    kind: str = "training"

    def evidence(self, ground: Ground, aside: Path) -> Evidence:
        """Both trainings; ours a second time where one run reproduces nothing."""
        once = Evidence(training_reference=ground.training, training_ours=self.run(ground))
        causes = diagnose(once).causes
        if causes and causes[0].score < CERTAIN:
            return dataclasses.replace(once, training_again=self.run(ground))
        return once

    def run(self, ground: Ground) -> Trace:
        """Our training, wrong."""
        return observe_training(ground.converted, self.feed(ground.training), build=self.build, pynative_only=True)


def made(
    *,
    loss: type[NextTokenLoss] = NextTokenLoss,
    optimizer: type[optimizers.Wrong] = optimizers.Wrong,
    schedule: Callable[[Recipe], Any] | None = None,
    step: type[TrainStep] = TrainStep,
    clipped: bool = True,
    first: Callable[[GPT], None] = lambda model: None,
) -> Callable[[GPT, Recipe], TrainStep]:
    """What builds a step of these parts; those that are not named are right."""

    def build(model: GPT, told: Recipe) -> TrainStep:
        first(model)
        curve = schedule(told) if schedule else Cosine(told.lr, total=told.total_steps, warmup=told.warmup_steps)
        chosen = optimizer(model.trainable_params(), told)
        return step(model, loss(model), chosen, curve, told.max_norm if clipped else None)

    return build


def misread(change: Callable[[Recipe], dict[str, Any]]) -> Callable[[GPT, Recipe], TrainStep]:
    """What builds the right step of a recipe with other numbers."""
    return lambda model, told: training_step(model, dataclasses.replace(told, **change(told)))


def moved(kind: type[Cosine]) -> Callable[[GPT, Recipe], TrainStep]:
    """What builds a step with another cosine."""
    return made(schedule=lambda told: kind(told.lr, total=told.total_steps, warmup=told.warmup_steps))


def rolled(by: int) -> Callable[[Trace], Trace]:
    """Feeds the batches `by` places later."""
    names = ("batches", "labels")
    return lambda reference: dataclasses.replace(
        reference, arrays={**reference.arrays, **{name: np.roll(reference[name], by, 0) for name in names}}
    )


def another(model: GPT) -> None:
    """Weights of the same model, but of another day."""
    for weight in model.trainable_params():
        weight.set_data(weight * 1.01)


def fault(name: str, what: str, where: str | Callable[[ModelConfig], str], *others: str, **parts: Any) -> TrainingFault:
    """A row of the table: the cause has the fault's name, or one of `others` where a model cannot tell them apart."""
    first = where if callable(where) else lambda config: where
    return TrainingFault(name=name, what=what, first=first, causes=(name, *others), seen="the loss falls, less well",
                         **parts)  # fmt: skip


def _drops(config: ModelConfig) -> bool:
    return max(config.embd_pdrop, config.attn_pdrop, config.resid_pdrop) > 0


def _query(config: ModelConfig) -> str:
    return f"blocks.{min(1, config.num_hidden_layers - 1)}.attn.q.weight"


def _tied(config: ModelConfig) -> bool:
    return config.tie_word_embeddings


FAULTS = (
    fault("nothing_loaded", "the checkpoint is never loaded", "weights",
          build=lambda model, told: training_step(GPT(model.config), told)),
    fault("stale_weights", "the weights are those of another checkpoint", "weights", build=made(first=another)),
    fault("batches_early", "the first batch is skipped", "data", feed=rolled(-1)),
    fault("batches_late", "the last batch comes first", "data", feed=rolled(1)),
    fault("dropout", "dropout is on", "model", applies=_drops, build=made(step=steps.Dropping)),
    fault("not_deterministic", "gradients are summed in any order", "gradients", build=made(step=steps.Noisy)),
    fault("label_shift_missing", "labels are not shifted", "loss", build=made(loss=steps.Unshifted)),
    fault("label_shift_twice", "labels are shifted twice", "loss", build=made(loss=steps.TwiceShifted)),
    fault("padding_counted", "padding counts", "loss", build=made(loss=steps.Padding)),
    fault("mean_over_all", "the sum is divided by B·T", "loss", build=made(loss=steps.OverAll)),
    fault("loss_summed", "the loss is a sum", "loss", build=made(loss=steps.Summed)),
    fault("mean_of_means", "micro-batches of unequal length are averaged", "loss", build=made(loss=steps.OfMeans)),
    fault("micro_batch_dropped", "the last micro-batch is dropped", "loss", build=made(loss=steps.Dropped)),
    fault("loss_scale_kept", "the loss scale is not taken out", "gradients", build=made(step=steps.Scaled)),
    fault("accumulation_summed", "gradients are summed over micro-batches", "gradients",
          build=made(step=steps.Accumulated)),
    fault("gradient_sign", "the loss is maximised", "gradients", build=made(step=steps.Opposite)),
    fault("detached", "a weight is read through stop_gradient", _query, build=made(first=steps.detach_query)),
    fault("tied_one_side", "the tied head is detached", "embed.weight", applies=_tied,
          build=made(first=steps.detach_head)),
    fault("clip_missing", "gradients are not clipped", "clipping", build=made(clipped=False)),
    fault("clip_after_step", "the step is clipped instead of the gradients", "clipping", "clip_missing",
          build=made(optimizer=optimizers.ClipAfter)),
    fault("clip_per_tensor", "each gradient is clipped by itself", "clipping", "clip_missing",
          build=made(step=steps.PerTensor)),
    fault("clip_before_unscale", "gradients are clipped while the loss scale is on", "clipping",
          build=made(step=steps.ClippedScaled)),
    fault("no_bias_correction", "AdamW corrects no bias", "AdamW", build=made(optimizer=optimizers.Uncorrected)),
    fault("adam_weight_decay", "nn.AdamWeightDecay in AdamW's place", "AdamW",
          build=made(optimizer=optimizers.AdamWeightDecay)),
    fault("step_not_counted", "the step counter stays at 1", "AdamW", build=made(optimizer=optimizers.NotCounted)),
    fault("eps_inside_root", "ε is inside the root", "AdamW", build=made(optimizer=optimizers.EpsInside)),
    fault("eps_before_correction", "ε is added before the correction", "AdamW",
          build=made(optimizer=optimizers.EpsEarly)),
    fault("eps_value", "ε is 1e-6", "AdamW", build=misread(lambda told: {"eps": 1e-6})),
    fault("betas", "β₂ is 0.999", "AdamW", build=misread(lambda told: {"betas": (told.betas[0], 0.999)})),
    fault("l2_not_decoupled", "the decay is in the gradient", "AdamW", build=made(optimizer=optimizers.L2)),
    fault("decay_missing", "no weight decays", "AdamW", build=misread(lambda told: {"weight_decay": 0.0})),
    fault("decay_on_all", "norms decay too", "AdamW", build=misread(lambda told: {"no_decay": ()})),
    fault("state_not_kept", "m and v are lost between the steps", "AdamW",
          build=made(optimizer=optimizers.Forgetful)),
    fault("frozen_weight", "a parameter is not updated", optimizers.FROZEN, build=made(optimizer=optimizers.Frozen)),
    fault("narrow", "m and v are kept in bfloat16", "AdamW", build=made(optimizer=optimizers.Halved)),
    fault("rate_not_used", "the optimizer keeps the peak rate", "AdamW", build=made(optimizer=optimizers.PeakRate)),
    fault("schedule_late", "the schedule is one step behind", "schedule", build=moved(steps.LateCosine)),
    fault("schedule_early", "the schedule is one step ahead", "schedule", build=moved(steps.EarlyCosine)),
    fault("schedule_per_micro_batch", "the schedule moves with each micro-batch", "schedule",
          build=moved(steps.OftenCosine)),
    fault("constant_rate", "the rate is constant", "schedule", build=made(schedule=lambda told: Constant(told.lr))),
    fault("warmup_missing", "there is no warm-up", "schedule", build=misread(lambda told: {"warmup_steps": 0})),
    fault("total_wrong", "the schedule is for twice the steps", "schedule",
          build=misread(lambda told: {"total_steps": 2 * told.total_steps})),
)  # fmt: skip
