"""Alarms: a sound run rings none, each planted trouble rings its own first, and once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.training.monitor import RULES, Alarm, Plan, Watch, entropy
from mindport.training.step_record import StepRecord
from tests.training.monitor.runs import RECORDED, Course, healthy

KINDS = ("scratch", "pretrained", "float16", "buckets")
LAST = 10_000
UNIFORM = math.log(512)


@settings(max_examples=25)
@given(kind=st.sampled_from(KINDS), seed=st.integers(0, 10**6))
def test_a_sound_run_rings_nothing(kind, seed):
    assert [alarm.text() for alarm in healthy(kind, seed).alarms()] == []


def scratch(seed: int) -> Course:
    return healthy("scratch", seed)


def times(field: str, factor: float) -> Callable[[StepRecord], dict]:
    return lambda record: {field: getattr(record, field) * factor}


def always(**values: object) -> Callable[[StepRecord], dict]:
    return lambda record: values


def unloaded(seed: int) -> Course:
    course = scratch(seed)
    course.plan = Plan("pretrained", course.plan.vocab, course.plan.steps, course.plan.warmup)
    return course


def stuck_at(level: float, first: int = 1) -> Callable[[int], Course]:
    return lambda seed: scratch(seed).change(first, LAST, lambda r: {"loss": level * (1 + 0.01 * math.sin(7 * r.step))})


def too_small_a_scale(seed: int) -> Course:
    course = healthy("float16", seed).change(1, LAST, always(moved=True, norm=1.0, loss_scale=2.0))
    course.change(100, 100, always(moved=False, norm=math.inf))
    return course.change(101, LAST, always(moved=False, norm=math.inf, loss_scale=1.0))


def too_small_a_window(seed: int) -> Course:
    course = healthy("float16", seed)
    for step in range(1, len(course.records) + 1):
        scale, moved = ((1024.0, True), (4096.0, False), (2048.0, False))[step % 3]
        course.change(step, step, always(moved=moved, loss_scale=scale, norm=1.0 if moved else math.inf))
    return course


def falling_scale(seed: int) -> Course:
    course = healthy("float16", seed).change(1, LAST, always(moved=True, norm=1.0, loss_scale=2.0**16))
    for fall, step in enumerate(range(100, 160, 10), 1):
        course.change(step, step, always(moved=False, norm=math.inf))
        course.change(step + 1, LAST, always(loss_scale=2.0 ** (16 - fall)))
    return course


def always_another_length(seed: int) -> Course:
    course = scratch(seed).change(1, 50, always(compiled=1, seconds=5.0))
    course.shapes[:50] = [[(8, 10 + step)] for step in range(50)]
    return course


def leaking(seed: int) -> Course:
    course = scratch(seed)
    course.memory = {step: memory + 4 * step for step, memory in course.memory.items()}
    return course


def overfit(seed: int) -> Course:
    course = scratch(seed)
    course.held_out |= {step: 4.9 + (step - 150) / 200 for step in course.held_out if step > 150}
    return course


PLANTED: dict[str, tuple[str, Callable[[int], Course]]] = {
    "the loss is NaN": ("not finite", lambda seed: scratch(seed).change(150, LAST, always(loss=math.nan))),
    "an infinite norm": ("not finite", lambda seed: scratch(seed).change(150, LAST, always(norm=math.inf))),
    "NaN in float32, skipped": (
        "not finite", lambda seed: scratch(seed).change(150, LAST, always(norm=math.nan, moved=False))),
    "the rate is far too high": ("diverged", lambda seed: scratch(seed).change(4, LAST, times("loss", 5))),
    "a pretrained model unlearns": (
        "diverged", lambda seed: healthy("pretrained", seed).change(4, LAST, lambda r: {"loss": r.loss + 2})),
    "the forward pass overflows": (
        "not finite", lambda seed: healthy("float16", seed).change(150, LAST, always(loss=math.inf, moved=False))),
    "labels are inputs": ("labels leak", lambda seed: scratch(seed).change(1, LAST, times("loss", 0.05))),
    "labels are inputs, pretrained": (
        "labels leak", lambda seed: healthy("pretrained", seed).change(1, LAST, times("loss", 0.01))),
    "weights are not loaded": ("nothing loaded", unloaded),
    "weights start too large": (
        "initial weights", lambda seed: scratch(seed).change(1, LAST, lambda r: {"loss": r.loss + 30 / r.step})),
    "the smallest scale overflows": ("loss scale at its minimum", too_small_a_scale),
    "the scale rises too soon": ("overflow in most steps", too_small_a_window),
    "the scale falls": ("loss scale falls", falling_scale),
    "all is frozen": (
        "no gradient", lambda seed: scratch(seed).change(1, LAST, always(norm=0.0, loss=UNIFORM))),
    "frozen later": ("no gradient", lambda seed: scratch(seed).change(100, LAST, always(norm=0.0))),
    "gradients vanish": ("no gradient", lambda seed: scratch(seed).change(100, LAST, times("norm", 1e-6))),
    "the schedule ends early": ("learning rate 0", lambda seed: scratch(seed).change(100, LAST, always(lr=0.0))),
    "two large gradients": ("gradient spike", lambda seed: scratch(seed).change(150, 151, times("norm", 30))),
    "one huge gradient": ("gradient spike", lambda seed: scratch(seed).change(150, 150, times("norm", 300))),
    "the loss jumps": (
        "loss spike", lambda seed: scratch(seed).change(150, 160, lambda r: {"loss": r.loss + 1.5})),
    "one very bad batch": (
        "loss spike", lambda seed: scratch(seed).change(150, 150, lambda r: {"loss": r.loss + 4})),
    "nothing is learnt": ("plateau", stuck_at(UNIFORM)),
    "context is not used": ("plateau", stuck_at(RECORDED["entropy"], 50)),
    "a graph for a known shape": (
        "recompiled", lambda seed: scratch(seed).change(150, 160, always(compiled=1, seconds=5.0))),
    "another length each time": ("many shapes", always_another_length),
    "another program": ("slow", lambda seed: scratch(seed).change(200, LAST, times("seconds", 3))),
    "memory is kept": ("memory grows", leaking),
    "learning by heart": ("overfit", overfit),
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("name", "plant"), PLANTED.values(), ids=PLANTED)
def test_a_planted_trouble_rings_its_own_first_and_once(name, plant, seed):
    alarms = plant(seed).alarms()
    assert [alarm.name for alarm in alarms[:1]] == [name], [alarm.text() for alarm in alarms]
    assert Counter(alarm.name for alarm in alarms)[name] == 1
    assert {alarm.name for alarm in alarms if alarm.fatal} <= {"not finite"}
    assert alarms[0].fatal == (name == "not finite")
    assert alarms[0].causes and alarms[0].do and any(digit.isdigit() for digit in alarms[0].says)


def test_each_rule_has_its_trouble():
    assert {name for name, _ in PLANTED.values()} == {rule.name for rule in RULES}


def first(course: Course) -> Alarm:
    return course.alarms()[0]


def test_one_skipped_step_without_a_loss_is_no_alarm():
    """float16 overflows in the forward pass of one batch; two in a row are let pass, three are not."""
    for length, alarms in ((1, 0), (2, 0), (3, 1)):
        course = healthy("float16", 1).change(50, 49 + length, always(loss=math.nan, norm=math.nan, moved=False))
        assert len(course.alarms()) == alarms


def test_another_episode_rings_again_and_a_long_one_does_not():
    course = scratch(0).change(100, 100, always(compiled=1)).change(200, 200, always(compiled=1))
    assert [(alarm.name, alarm.step) for alarm in course.alarms()] == [("recompiled", 100), ("recompiled", 200)]
    course.change(100, 200, lambda record: {"compiled": record.step % 10 == 0})
    assert [alarm.step for alarm in course.alarms()] == [100]


def test_rules_can_be_left_out():
    watch = Watch(Plan("scratch", 512, 300), rules=["plateau"])
    assert watch.step(StepRecord(1, math.nan, math.nan, 1e-3)) == []
    assert Watch(Plan("scratch", 512, 300)).step(StepRecord(1, math.nan, math.nan, 1e-3))[0].fatal


@pytest.mark.parametrize(
    ("changes", "cause"),
    [({"counted": 0}, "no token of the batch counts"), ({}, "the learning rate is too high")],
)
def test_the_cause_of_nan_that_the_figures_speak_for_comes_first(changes, cause):
    course = scratch(0).change(150, LAST, always(loss=math.nan, **changes))
    assert first(course).causes[0].startswith(cause)


def test_a_skipped_batch_in_which_nothing_counts_does_no_harm():
    course = scratch(0).change(150, 150, always(loss=math.nan, norm=math.nan, counted=0, moved=False))
    assert [(alarm.name, alarm.fatal) for alarm in course.alarms()] == [("not finite", False)]


def test_gradients_that_grew_before_nan_are_named():
    course = scratch(0).change(149, 149, times("norm", 7)).change(150, LAST, always(loss=math.nan))
    assert first(course).causes[0].startswith("the gradients had grown: norm")


@pytest.mark.parametrize(
    ("change", "cause"),
    [({"swapped": 800.0}, "memory is short"), ({"load": 64_000.0}, "another program"), ({}, "graphs are compiled")],
)
def test_the_cause_of_slowness_that_the_figures_speak_for_comes_first(change, cause):
    course = scratch(0).change(200, LAST, times("seconds", 3))
    for name, value in change.items():
        setattr(course, name, value)
    assert first(course).causes[0].startswith(cause)


def test_shapes_are_named():
    course = scratch(0).change(150, 150, always(compiled=1))
    assert "8 × 64 tokens" in first(course).says


def test_slower_steps_of_longer_rows_are_no_slowness():
    course = healthy("buckets", 0)
    for index, ((_, length),) in enumerate(course.shapes):
        course.change(index + 1, index + 1, always(seconds=0.1 if length == 32 else 1.0))
    course.shapes[150:] = [[(8, 64)]] * (len(course.shapes) - 150)
    course.change(151, LAST, always(seconds=1.0, tokens=512))
    assert course.alarms() == []


def test_a_spike_in_the_warm_up_is_none():
    course = scratch(0).change(60, 62, times("norm", 30))
    assert first(course).name == "gradient spike"
    plan = course.plan
    course.plan = Plan(plan.start, plan.vocab, plan.steps, warmup=80)
    assert course.alarms() == []


def test_few_tokens_make_a_loss_vary_more():
    """The same jump is none in a batch of a hundredth of the tokens."""
    jump = scratch(0).change(150, 150, lambda record: {"loss": record.loss + 2})
    assert first(jump).name == "loss spike"
    assert jump.change(150, 150, always(counted=5)).alarms() == []


def test_the_history_stays_small():
    watch = Watch(Plan("scratch", 512, 10_000))
    for step in range(1, 3001):
        watch.step(StepRecord(step, 3.0, 1.0, 1e-3, tokens=10, counted=9, seconds=0.1), [(1, 10)])
    assert len(watch.history.steps) <= 2000 and watch.history.known[1, 10] == 2999


def test_the_entropy_of_two_equal_tokens_is_ln_2():
    assert entropy(np.array([5, 0, 5])) == pytest.approx(math.log(2))
