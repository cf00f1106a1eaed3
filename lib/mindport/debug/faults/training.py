"""Faults of a training: what the step is built of, what it is told, or what it is fed. PyNative mode, a few steps.

Here they are described; `builds` has them in MindSpore, and is imported when one is planted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.config.model_config import ModelConfig
from mindport.debug.diagnosis.cause import Evidence
from mindport.debug.diagnosis.engine import diagnose
from mindport.debug.faults.fault import Fault, Ground
from mindport.parity.trace import Trace

SURE = 0.5  # the score from which on no second run is needed


@dataclass(frozen=True)
class TrainingFault(Fault):
    """One mistake in a training.

    Attributes:
        feed: what the reference was fed → what we feed; without it the step itself is wrong, as `builds` makes it.
    """

    feed: Callable[[Trace], Trace] | None = None
    kind: str = "training"

    def evidence(self, ground: Ground, aside: Path) -> Evidence:
        """Both trainings; ours a second time where the first reproduces nothing."""
        once = Evidence(training_reference=ground.training, training_ours=self.run(ground))
        if any(cause.score >= SURE for cause in diagnose(once).causes):
            return once
        return dataclasses.replace(once, training_again=self.run(ground))

    def run(self, ground: Ground) -> Trace:
        """Our training, wrong."""
        from mindport.debug.faults.builds import BUILDS
        from mindport.parity.ours_training import observe_training

        if self.feed:
            return observe_training(ground.converted, self.feed(ground.training), only="PyNative")
        return observe_training(ground.converted, ground.training, build=BUILDS[self.name], only="PyNative")


def _rolled(by: int) -> Callable[[Trace], Trace]:
    """The batches come `by` places later."""

    def feed(reference: Trace) -> Trace:
        rolled = {name: np.roll(reference[name], by, 0) for name in ("batches", "labels")}
        return dataclasses.replace(reference, arrays={**reference.arrays, **rolled})

    return feed


def _fault(
    name: str, what: str, where: str | Callable[[ModelConfig], str], *alike: str,
    applies: Callable[[ModelConfig], bool] = lambda config: True, feed: Callable[[Trace], Trace] | None = None,
) -> TrainingFault:  # fmt: skip
    """The cause has the fault's name; `alike` are causes that a model may not be able to tell from it."""
    return TrainingFault(name, what, where, (name, *alike), applies, feed=feed)


def _drops(config: ModelConfig) -> bool:
    return max(config.embd_pdrop, config.attn_pdrop, config.resid_pdrop) > 0


def _query(config: ModelConfig) -> str:
    return f"blocks.{min(1, config.num_hidden_layers - 1)}.attn.q.weight"


FAULTS = (
    _fault("nothing_loaded", "the checkpoint is never loaded", "weights"),
    _fault("stale_weights", "the weights are those of another checkpoint", "weights"),
    _fault("batches_early", "the first batch is skipped", "data", feed=_rolled(-1)),
    _fault("batches_late", "the last batch comes first", "data", feed=_rolled(1)),
    _fault("dropout_on", "dropout is on in a training without it", "model", applies=_drops),
    _fault("not_deterministic", "the gradients are summed in no fixed order", "gradients"),
    _fault("label_shift_missing", "the labels are not shifted", "loss"),
    _fault("label_shift_twice", "the labels are shifted twice", "loss"),
    _fault("padding_counted", "padding counts in the loss", "loss"),
    _fault("mean_over_all", "the sum is divided by B·T, ignored labels included", "loss"),
    _fault("loss_summed", "the loss is a sum", "loss"),
    _fault("mean_of_means", "micro-batches with unequal numbers of labels are averaged", "loss"),
    _fault("micro_batch_dropped", "the last micro-batch is dropped", "loss"),
    _fault("loss_scale_kept", "the loss scale is never taken out of the gradients", "gradients"),
    _fault("accumulation_summed", "the gradients of micro-batches are summed, not averaged", "gradients"),
    _fault("gradient_sign", "the loss is maximised", "gradients"),
    _fault("detached", "a weight is read through stop_gradient", _query),
    _fault("tied_one_side", "the tied head is read through stop_gradient", "embed.weight",
           applies=lambda config: config.tie_word_embeddings),
    _fault("clip_missing", "the gradients are not clipped", "clipping"),
    _fault("clip_after_step", "the step is clipped, and not the gradients", "clipping", "clip_missing"),
    _fault("clip_per_tensor", "each gradient is clipped by its own norm", "clipping", "clip_missing"),
    _fault("clip_before_unscale", "the gradients are clipped with the loss scale in them", "clipping"),
    _fault("no_bias_correction", "AdamW corrects no bias", "AdamW"),
    _fault("adam_weight_decay", "nn.AdamWeightDecay in the place of AdamW", "AdamW"),
    _fault("step_not_counted", "the step counter stays at 1", "AdamW"),
    _fault("eps_inside_root", "ε is inside the square root", "AdamW"),
    _fault("eps_before_correction", "ε is added before the bias is corrected", "AdamW"),
    _fault("eps_value", "ε is 1e-6, not 1e-8", "AdamW"),
    _fault("betas", "β₂ is 0.999, not 0.95", "AdamW"),
    _fault("l2_not_decoupled", "the decay is added to the gradient", "AdamW"),
    _fault("decay_missing", "no weight decays", "AdamW"),
    _fault("decay_on_all", "norms and biases decay too", "AdamW"),
    _fault("state_not_kept", "m and v are lost between the steps", "AdamW"),
    _fault("frozen_weight", "a parameter is never updated", "norm.weight"),
    _fault("narrow", "m and v are kept in bfloat16", "AdamW"),
    _fault("rate_not_used", "the optimizer keeps the peak rate", "AdamW"),
    _fault("schedule_late", "the schedule is one step behind", "schedule"),
    _fault("schedule_early", "the schedule is one step ahead", "schedule"),
    _fault("schedule_per_micro_batch", "the schedule moves with each micro-batch", "schedule"),
    _fault("constant_rate", "the rate is constant", "schedule"),
    _fault("warmup_missing", "there is no warm-up", "schedule"),
    _fault("total_wrong", "the schedule is for twice the steps", "schedule"),
)  # fmt: skip
