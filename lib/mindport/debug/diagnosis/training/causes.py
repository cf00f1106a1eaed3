"""Every mistake of a training that is known: what is wrong, where, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.debug.diagnosis.cause import Cause

CERTAIN, SIGN, SYMPTOM = 1.0, 0.4, 0.1  # our numbers reproduced; a figure that speaks for it; what nothing explains


@dataclass(frozen=True)
class Known:
    """What a cause says; `{…}` stands for a detail of the case."""

    says: str
    where: str
    do: str


LOSS, GRADIENTS, CLIP, ADAMW, SCHEDULE, DATA = "loss", "gradients", "clipping", "AdamW", "schedule", "data"

CAUSES = {
    # the start
    "nothing_loaded": Known("the model knows nothing: the weights were not loaded", "weights",
                            "print how many tensors were matched, and the first that were not"),
    "stale_weights": Known("the weights are not the checkpoint's: of another one, or changed", "weights",
                           "look which file is read; after a first step restore with ops.assign, not set_data"),
    "batches_early": Known("the data is one batch ahead", DATA,
                           "look at skip, resume and shuffle; begin the data set anew for each run"),
    "batches_late": Known("the data is one batch behind", DATA,
                          "look at skip, resume and shuffle; begin the data set anew for each run"),
    "dropout_on": Known("something is drawn in the forward pass: dropout is on", "model",
                        "while comparing, call set_train(False) or set every dropout rate to 0"),
    "not_deterministic": Known("two runs of ours differ", "gradients",
                               "seed the order of the data; sum in a fixed order; never seed from the clock"),
    "losses_part": Known("the losses part in step {step}", DATA,
                         "compare the ids of that step's batch, then m, v and weights after the step before"),
    # the loss
    "label_shift_missing": Known("each token is asked for itself, not for the next one", LOSS,
                                 "shift the labels by one: mindport.model.NextTokenLoss does"),
    "label_shift_twice": Known("the labels are shifted twice: a token is asked for the one after the next", LOSS,
                               "shift them in one place: NextTokenLoss takes labels that stand where the ids do"),
    "padding_counted": Known("padding counts in the loss", LOSS, "give padding the label −100"),
    "mean_over_all": Known("the sum is divided by {all} positions, not by the {count} that count", LOSS,
                           "divide by the number of labels that count"),
    "loss_summed": Known("the loss is a sum, not a mean", LOSS, "divide by the number of labels that count"),
    "mean_of_means": Known("the rows' means are averaged, though some have more labels than others", LOSS,
                           "sum over all micro-batches, then divide by all the labels that count"),
    "micro_batch_dropped": Known("only rows {rows} count", LOSS,
                                 "look at the loop over the micro-batches: its first or last round is lost"),
    "loss_differs": Known("the loss of step 0 is another", LOSS, "look at the forward pass first: mindport verify"),
    # the gradients
    "loss_scale_kept": Known("the loss scale {times} is never taken out", GRADIENTS,
                             "divide the gradients by it; then clip; then the optimizer"),
    "accumulation_summed": Known("{times} micro-batches are summed, not averaged", GRADIENTS,
                                 "divide the loss of each micro-batch by their number"),
    "divided_twice": Known("the gradients are divided by {times} once too often", GRADIENTS,
                           "divide the loss or the gradients, not both"),
    "gradient_sign": Known("the gradients have the wrong sign", GRADIENTS,
                           "minimise the loss: look for a minus before it, or before the step"),
    "gradient_factor": Known("the gradients are multiplied with a number", GRADIENTS,
                             "look at what the loss is averaged over, and at what else multiplies it"),
    "detached": Known("the graph is cut: a parameter gets no gradient", "{names}",
                      "look for stop_gradient, asnumpy or a Python number; check by a finite difference"),
    "tied_one_side": Known("the tied table learns as {half}", "embed.weight",
                           "use one Parameter in both places: no copy, no stop_gradient"),
    "gradient_differs": Known("gradients differ at step 0", "{name}",
                              "begin with this one, the last of the model that is wrong: gradients flow from there"),
    # clipping
    "clip_missing": Known("the gradients are not clipped, or only after the step, or each by a norm below the limit",
                          CLIP, "clip by the global norm between backward and the optimizer"),
    "clip_per_tensor": Known("each gradient is clipped by its own norm, not by that of all", CLIP,
                             "clip by the global norm: ops.clip_by_global_norm, mindport.training.ClipNorm"),
    "clip_after_step": Known("the step is clipped, and not the gradients that it is made of", CLIP,
                             "clip the gradients first; then give them to the optimizer"),
    "clip_before_unscale": Known("the norm that clips is that of gradients with the loss scale", CLIP,
                                 "divide by the loss scale; then clip; then the optimizer"),
    "factors_differ": Known("each gradient has a factor of its own", CLIP, "look at what multiplies the gradients"),
    # the optimizer
    "betas": Known("the betas are {got}, not {told}", ADAMW, "pass the recipe's betas to the optimizer"),
    "l2_not_decoupled": Known("the decay is added to the gradient (L2), not taken from the weight", ADAMW,
                              "take AdamW, not Adam with weight_decay: w ← w · (1 − lr · weight_decay)"),
    "state_not_kept": Known("m and v do not outlive a step", ADAMW,
                            "keep one optimizer; restore its state by ops.assign, step counter included"),
    "other_gradient": Known("the optimizer got another gradient than the model gave", ADAMW,
                            "run twice: a difference means dropout or an unseeded generator"),
    "narrow": Known("{what} are kept in {dtype}", ADAMW,
                    "keep weights, m and v in float32; lower the precision of the model's cells only"),
    "frozen_weight": Known("a parameter does not move", "{names}",
                           "the optimizer must hold the model's own Parameter: look at requires_grad and copies"),
    "no_bias_correction": Known("AdamW without bias correction", ADAMW,
                                "use mindport.training.AdamW; divide m by 1 − β₁ᵗ and v by 1 − β₂ᵗ"),
    "adam_weight_decay": Known("the step of nn.AdamWeightDecay: no bias correction, and ε = 1e-6", ADAMW,
                               "use mindport.training.AdamW or mindspore.experimental.optim.AdamW"),
    "no_correction_of_m": Known("the bias of m is not corrected", ADAMW, "divide m by 1 − β₁ᵗ"),
    "no_correction_of_v": Known("the bias of v is not corrected", ADAMW, "divide v by 1 − β₂ᵗ"),
    "eps_inside_root": Known("ε is inside the square root", ADAMW, "divide by √v̂ + ε, not by √(v̂ + ε)"),
    "eps_before_correction": Known("ε is added before the bias is corrected", ADAMW,
                                   "use mindport.training.AdamW; nn.Adam adds ε early"),
    "eps_value": Known("ε is {eps}", ADAMW, "pass the recipe's eps: MindSpore's own defaults differ"),
    "step_counted_late": Known("the bias is corrected as in the step after", ADAMW, "count the first step as t = 1"),
    "step_not_counted": Known("the bias is corrected as in the first step, in every step", ADAMW,
                              "count the steps in a Parameter, and save it with the state"),
    "ascent": Known("the step goes up the gradient", ADAMW, "subtract the step from the weight"),
    "decay_missing": Known("no weight decays", ADAMW, "pass weight_decay, and look which weights it is for"),
    "decay_on_all": Known("norms and biases decay too", ADAMW,
                          "give the optimizer two groups: matrices and tables with the decay, the rest without"),
    "decay_on_the_rest": Known("norms and biases decay, and matrices do not", ADAMW, "exchange the optimizer's groups"),
    "decay_without_rate": Known("the decay is not multiplied with the rate", ADAMW, "w ← w · (1 − lr · weight_decay)"),
    "rate_not_used": Known("the optimizer uses the peak rate, whatever the schedule reports", ADAMW,
                           "pass the rate to the optimizer as a Tensor: a Python number is a constant of the graph"),
    "rate_of_last_step": Known("the optimizer uses the rate of the step before", ADAMW,
                               "read the schedule before the optimizer, at the same count of steps"),
    "rate_of_next_step": Known("the optimizer uses the rate of the step after", ADAMW,
                               "step the schedule after the optimizer, at the same count of steps"),
    "other_step": Known("the step is not AdamW's", "{name}", "take one step of it by hand, on p = 1, g = 1e-4"),
    # the schedule
    "schedule_late": Known("the rates come one step late", SCHEDULE, "step the schedule once after each update"),
    "schedule_early": Known("the rates come one step early", SCHEDULE, "read the rate, then step the schedule"),
    "constant_rate": Known("the rate is constant", SCHEDULE, "pass the schedule to the optimizer, not its peak"),
    "warmup_missing": Known("there is no warm-up", SCHEDULE, "rise from 0, as the schedules of transformers do"),
    "warmup_wrong": Known("the warm-up takes {got} steps, not {told}", SCHEDULE, "pass the recipe's warm-up"),
    "no_decay_of_rate": Known("the rate never falls after the warm-up", SCHEDULE, "pass the steps of the whole run"),
    "other_form": Known("the rate falls in a straight line, not in half a cosine", SCHEDULE, "take the recipe's form"),
    "schedule_per_micro_batch": Known("the schedule moves {times} times a step", SCHEDULE,
                                      "step it once an update, not once a micro-batch"),
    "total_wrong": Known("the schedule is made for {got} steps, not for {told}", SCHEDULE,
                         "pass the number of updates: batches / micro-batches · epochs"),
    "other_schedule": Known("the learning rate follows another curve", SCHEDULE,
                            "print the rates of steps 0 to 3 beside torch's"),
}  # fmt: skip


def cause(name: str, evidence: str, score: float = CERTAIN, /, **details: object) -> Cause:
    """One of `CAUSES`, with the figures that speak for it."""
    known = CAUSES[name]
    return Cause(name, known.says.format(**details), known.where.format(**details), evidence, known.do, score)
