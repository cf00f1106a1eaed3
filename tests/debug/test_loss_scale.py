"""A scale that falls now and then is sound; one that only falls, a step counted though skipped, are named."""

from __future__ import annotations

import math

import pytest

from mindport.debug import ScaledStep, explain_loss_scale
from mindport.debug.loss_scale import COLLAPSE
from mindport.debug.scaled_run import START, scaled_run
from mindport.errors import UsageError


def history(*finite, scale=1024.0, updates=0):
    steps = []
    for each in finite:
        updates += each
        steps.append(ScaledStep(scale, bool(each), updates))
        scale = scale if each else max(1.0, scale / 2)
    return steps


def test_a_single_overflow_is_sound():
    report = explain_loss_scale(history(1, 1, 0, 1, 1, 0, 1))
    assert report.ok and report.skipped == 2
    assert "sound" in report.headline()


def test_overflows_that_do_not_end_are_a_collapse():
    report = explain_loss_scale(history(1, *[0] * COLLAPSE))
    assert not report.ok and report.collapsed_at == 1
    assert explain_loss_scale(history(1, *[0] * (COLLAPSE - 1))).ok
    assert explain_loss_scale(history(*[0] * COLLAPSE, 1)).ok


def test_the_minimum_is_counted_and_need_not_fall_further():
    report = explain_loss_scale(history(*[0] * 14))
    assert report.at_minimum == 4 and report.unmoved == ()


def test_a_skipped_step_must_not_count():
    steps = history(1, 0, 1)
    wrong = [*steps[:1], ScaledStep(steps[1].scale, False, 2), ScaledStep(steps[2].scale, True, 3)]
    report = explain_loss_scale(wrong)
    assert report.wrong_updates == (1,) and "run ahead" in report.headline()


def test_a_scale_that_does_not_fall_is_named():
    report = explain_loss_scale([ScaledStep(8.0, False, 0), ScaledStep(8.0, True, 1)])
    assert report.unmoved == (0,) and not report.ok


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_history_is_refused(scale):
    with pytest.raises(UsageError, match="no history"):
        explain_loss_scale([ScaledStep(scale, True, 1)])
    with pytest.raises(UsageError, match="no history"):
        explain_loss_scale([])


def test_mindspores_own_scaler_finds_its_place_and_collapses_on_an_infinite_slope():
    sound = scaled_run()
    assert sound.ok and 0 < sound.skipped < len(sound.steps)
    assert sound.steps[0].scale == START
    collapsed = scaled_run(steep=True)
    assert collapsed.collapsed_at == 0 and collapsed.skipped == len(collapsed.steps)
    assert collapsed.steps[-1].scale == 1.0
    assert scaled_run(counts_skipped=True).wrong_updates
