"""Each mistake of a training is told from two traces whose every number is known; a right one has no cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mindport.debug.diagnosis.cause import Cause, Evidence
from mindport.debug.diagnosis.engine import ranked
from mindport.debug.diagnosis.training import explain
from mindport.debug.diagnosis.training.causes import CAUSES
from mindport.debug.diagnosis.training.loss import Scores
from mindport.debug.diagnosis.training.narrow import is_narrow
from mindport.debug.diagnosis.training.schedule import rate
from mindport.parity.recipe import IGNORED
from mindport.parity.trace import Trace
from tests.debug.training.synthetic import (
    LENGTHS,
    RIGHT,
    SHAPES,
    STEPS,
    TOKENS,
    TOLD,
    VOCAB,
    Training,
    adam,
    clip,
    data,
    gradients,
    logits,
)

AT = np.arange(STEPS)
TABLE = "embed.weight"


def causes(ours: Training, again: Training | None = None, mode: str = "") -> tuple[Cause, ...]:
    return told_by(RIGHT.trace(), ours.trace(mode), again.trace(mode) if again else None)


def told_by(right: Trace, ours: Trace, again: Trace | None = None) -> tuple[Cause, ...]:
    return ranked(explain(Evidence(training_reference=right, training_ours=ours, training_again=again)))


def names(found: tuple[Cause, ...]) -> list[str]:
    return [cause.name for cause in found]


def times(factor: float):
    return lambda found: {name: factor * g for name, g in found.items()}


def changed(**changes):
    return replace(RIGHT, **changes)


def told(**changes):
    return replace(RIGHT, told=replace(TOLD, **changes))


def moved(form):
    """Another way to make the step of both means and what corrects them."""
    return changed(move=lambda m, v, t, told: form(m, v, 1 - told.betas[0] ** t, 1 - told.betas[1] ** t, told.eps))


def without(name: str):
    return lambda step: {**gradients(step), name: np.zeros(SHAPES[name])}


def half_tied(step: int):
    found = gradients(step)
    rows = np.isin(np.arange(len(found[TABLE])), data()[0][0])
    return {**found, TABLE: found[TABLE] * rows[:, None]}


def head_only(step: int):
    found = gradients(step)
    rows = np.isin(np.arange(len(found[TABLE])), data()[0][0])
    return {**found, TABLE: found[TABLE] * np.where(rows, 0.5, 1.0)[:, None]}


def unclipped(found, norm, told):
    return found


def unevenly(found, norm, told):
    return {name: g * (index + 1) / 10 for index, (name, g) in enumerate(found.items())}


def per_tensor(found, norm, told):
    return {name: clip({name: g}, float(np.linalg.norm(g)), told)[name] for name, g in found.items()}


def scaled_clip(found, norm, told):
    """Of gradients that are 1024 times as large; what comes out is divided by that."""
    return times(1 / 1024)(clip(found, norm, told))


def bfloat16(x: np.ndarray) -> np.ndarray:
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def noisy(step: int):
    return {name: g * (1 + 1e-2 * np.random.default_rng(step).random(g.shape)) for name, g in gradients(step).items()}


SCORES = Scores(logits().astype(np.float64))
IDS, LABELS = (x[0] for x in data())
ROLLED = np.concatenate([LABELS[:, 1:], np.full_like(LABELS[:, :1], IGNORED)], 1)
NEXT = np.concatenate([IDS[:, 1:], np.full_like(IDS[:, :1], IGNORED)], 1)
SELF = np.where(np.arange(TOKENS) < np.array(LENGTHS)[:, None], IDS, IGNORED)
EACH, COUNTS = SCORES(LABELS), LABELS != IGNORED

MISTAKES = {
    "label_shift_missing": changed(loss=SCORES.mean(SELF)),
    "label_shift_twice": changed(loss=SCORES.mean(ROLLED)),
    "padding_counted": changed(loss=SCORES.mean(NEXT)),
    "mean_over_all": changed(loss=EACH.sum() / COUNTS.size),
    "loss_summed": changed(loss=EACH.sum()),
    "mean_of_means": changed(loss=(EACH.sum(1) / COUNTS.sum(1)).mean()),
    "micro_batch_dropped": changed(loss=EACH[:2].sum() / COUNTS[:2].sum()),
    "loss_scale_kept": changed(made=lambda step: times(1024)(gradients(step))),
    "loss_scale_kept, seen by the optimizer alone": changed(seen=times(1024)),
    "accumulation_summed": changed(made=lambda step: times(4)(gradients(step))),
    "divided_twice": changed(made=lambda step: times(1 / 3)(gradients(step))),
    "gradient_sign": changed(made=lambda step: times(-1)(gradients(step))),
    "gradient_sign, seen by the optimizer alone": changed(seen=times(-1)),
    "gradient_factor": changed(made=lambda step: times(1.37)(gradients(step))),
    "gradient_factor, a large one": changed(made=lambda step: times(12345)(gradients(step))),
    "detached": changed(made=without("blocks.0.attn.q.weight")),
    "tied_one_side": changed(made=half_tied),
    "tied_one_side, the head": changed(made=head_only),
    "gradient_differs": changed(made=noisy),
    "clip_missing": changed(passed=unclipped),
    "clip_per_tensor": changed(passed=per_tensor),
    "clip_after_step": changed(passed=unclipped, move=lambda m, v, t, told: 0.5 * adam(m, v, t, told)),  # norm 1
    "factors_differ": changed(passed=unevenly),
    "other_gradient": changed(passed=lambda found, norm, told: clip(noisy(0), norm, told)),
    "clip_before_unscale": changed(seen=times(1024), passed=scaled_clip),
    "betas": told(betas=(0.9, 0.999)),
    "betas, the first": told(betas=(0.8, 0.95)),
    "betas, swapped": told(betas=(0.95, 0.9)),
    "l2_not_decoupled": changed(l2=True),
    "state_not_kept": changed(forgets=True),
    "narrow": changed(state=bfloat16),
    "no_bias_correction": moved(lambda m, v, c1, c2, eps: m / (np.sqrt(v) + eps)),
    "adam_weight_decay": moved(lambda m, v, c1, c2, eps: m / (np.sqrt(v) + 1e-6)),
    "no_correction_of_m": moved(lambda m, v, c1, c2, eps: m / (np.sqrt(v / c2) + eps)),
    "no_correction_of_v": moved(lambda m, v, c1, c2, eps: m / c1 / (np.sqrt(v) + eps)),
    "eps_inside_root": moved(lambda m, v, c1, c2, eps: m / c1 / np.sqrt(v / c2 + eps)),
    "eps_before_correction": moved(lambda m, v, c1, c2, eps: m / c1 / (np.sqrt(v) + eps) * np.sqrt(c2)),
    "eps_value": told(eps=1e-6),
    "step_counted_late": changed(move=lambda m, v, t, told: adam(m, v, t + 1, told)),
    "step_not_counted": changed(move=lambda m, v, t, told: adam(m, v, 1, told)),
    "ascent": changed(move=lambda m, v, t, told: -adam(m, v, t, told)),
    "decay_missing": told(weight_decay=0.0),
    "decay_on_all": told(no_decay=()),
    "decay_on_the_rest": told(no_decay=("embed.weight", "blocks.0.attn.q.weight")),
    "decay_without_rate": changed(kept=lambda lr, decay: 1 - decay),
    "rate_not_used": changed(used=lambda rates, t: TOLD.lr),
    "rate_of_last_step": changed(used=lambda rates, t: float(rates[max(0, t - 2)])),
    "rate_of_next_step": changed(used=lambda rates, t: float(rates[min(t, STEPS - 1)])),
    "frozen_weight": changed(frozen="norm.weight"),
    "schedule_late": changed(rates=rate(TOLD, np.maximum(AT - 1, 0))),
    "schedule_early": changed(rates=rate(TOLD, AT + 1)),
    "schedule_per_micro_batch": changed(rates=rate(TOLD, 4 * AT)),
    "constant_rate": changed(rates=np.full(STEPS, TOLD.lr)),
    "warmup_missing": told(warmup_steps=0),
    "no_decay_of_rate": changed(rates=rate(TOLD, np.minimum(AT, 1))),
    "other_form": changed(rates=rate(TOLD, AT, cosine=False)),
    "total_wrong": told(total_steps=37),
    "warmup_wrong": told(warmup_steps=3),
    "other_schedule": changed(rates=rate(TOLD, AT) + 1e-5),
    "stale_weights": changed(first=1.01),
    "batches_early": changed(loss=3.1),
}  # fmt: skip


def test_every_known_cause_is_tried_here():
    elsewhere = {"nothing_loaded", "batches_late", "dropout_on", "not_deterministic", "losses_part", "loss_differs",
                 "other_step"}  # fmt: skip
    assert {case.split(",")[0] for case in MISTAKES} | elsewhere == set(CAUSES)


@pytest.mark.parametrize("mode", ["", "pynative/"])
def test_a_right_training_has_no_cause(mode):
    assert causes(RIGHT, RIGHT, mode) == ()
    assert explain(Evidence()) == []


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_named_first(case):
    found = causes(MISTAKES[case])
    assert names(found)[:1] == [case.split(",")[0]], found


def test_a_mistake_of_one_mode_says_so():
    both, late = RIGHT.trace(), MISTAKES["schedule_late"].trace("pynative/")
    both.arrays |= late.arrays
    both.about["modes"] = {"PyNative": "pynative/", "Graph": ""}
    (found,) = told_by(RIGHT.trace(), both)
    assert found.name == "schedule_late"
    assert found.evidence.startswith("in PyNative mode only: ")
    both.arrays["lr"] = late["pynative/lr"]
    assert not told_by(RIGHT.trace(), both)[0].evidence.startswith("in")


def test_the_evidence_is_told_in_figures():
    (found,) = causes(MISTAKES["eps_value"])
    assert (found.says, found.where, found.score) == ("ε is 1e-06", "AdamW", 1.0)
    ours, away = (float(word.rstrip(";")) for word in found.evidence.split() if "e-" in word)
    assert ours < 5e-7 < 1e-5 < away


def test_both_mistakes_of_adam_with_weight_decay_are_told():
    """As nn.Adam: L2, and an ε that is added early."""
    early = moved(lambda m, v, c1, c2, eps: m / c1 / (np.sqrt(v) + eps) * np.sqrt(c2))
    assert set(names(causes(replace(early, l2=True)))) == {"l2_not_decoupled", "eps_before_correction"}


def test_what_nothing_explains_is_no_certainty():
    odd = changed(move=lambda m, v, t, told: adam(m, v, t, told) * 1.01, made=noisy)
    found = causes(odd)
    assert set(names(found)) == {"gradient_differs", "other_step"}
    assert max(cause.score for cause in found) < 0.5


def test_parameters_are_named():
    assert causes(MISTAKES["detached"])[0].where == "blocks.0.attn.q.weight"
    assert causes(MISTAKES["frozen_weight"])[0].where == "norm.weight"


def test_a_loss_of_ln_v_means_that_nothing_was_loaded():
    assert causes(changed(first=0.5, loss=np.log(VOCAB) + 0.01))[0].name == "nothing_loaded"


def test_weights_of_a_later_step_are_recognised():
    ours, right = RIGHT.trace(), RIGHT.trace()
    ours.arrays |= {f"weight/0/{name}": right[f"weight/3/{name}"] for name in SHAPES}
    found = told_by(right, ours)[0]
    assert found.name == "stale_weights"
    assert "torch's after 3 steps" in found.evidence


def test_a_batch_that_comes_late():
    ours, right = RIGHT.trace(), RIGHT.trace()
    ours.arrays["loss"] = np.roll(right["loss"], 1)
    assert names(told_by(right, ours))[0] == "batches_late"


def test_two_runs_that_differ():
    assert causes(changed(loss=3.1234), changed(loss=3.2345))[0].name == "dropout_on"
    (found,) = causes(RIGHT, told(eps=1e-6))
    assert (found.name, f"first weight/2/{TABLE}" in found.evidence) == ("not_deterministic", True)


def test_a_mistake_shows_in_a_sample_of_the_parameters():
    """As large models are looked at: some numbers of each parameter, in a row."""
    traces = [RIGHT.trace(), MISTAKES["l2_not_decoupled"].trace(), MISTAKES["eps_inside_root"].trace()]
    for trace in traces:
        trace.arrays = {name: x.ravel()[::3] if "/" in name else x for name, x in trace.arrays.items()}
    right, l2, eps = traces
    assert told_by(right, right) == ()
    for ours, name in ((l2, "l2_not_decoupled"), (eps, "eps_inside_root")):
        assert names(told_by(right, ours)) == [name]


def test_what_is_not_finite_is_a_difference_and_no_crash():
    ours = RIGHT.trace()
    for name in ("loss", "norm", f"grad/{TABLE}", f"m/1/{TABLE}", f"weight/2/{TABLE}"):
        ours.arrays[name] = np.full_like(ours[name], np.nan)
    found = told_by(RIGHT.trace(), ours)
    assert found
    assert max(cause.score for cause in found) < 0.5


def test_older_traces_without_the_middle_step_or_logits():
    right, ours = RIGHT.trace(), MISTAKES["label_shift_twice"].trace()
    for trace in (right, ours):
        trace.arrays = {name: x for name, x in trace.arrays.items() if "/2/" not in name and name != "logits"}
    assert told_by(right, right) == ()
    assert names(told_by(right, ours)) == ["loss_differs"]


def test_losses_that_part_later():
    ours = RIGHT.trace()
    ours.arrays["loss"] = ours["loss"] + np.array([0, 0, 0.1, 0], np.float32)
    (found,) = told_by(RIGHT.trace(), ours)
    assert (found.name, found.says) == ("losses_part", "the losses part in step 2")


def test_arrays_of_nan_are_not_called_narrow():
    """Each NaN is a bfloat16, bit by bit; an ε of 0 makes them, and the dtype is innocent."""
    assert is_narrow(np.ones(3, np.float32), "bfloat16")
    assert not any(is_narrow(np.full(3, np.nan, np.float32), dtype) for dtype in ("bfloat16", "float16"))
