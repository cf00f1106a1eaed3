"""What makes two layouts the same training, and what does not; notebook 06 runs real ones."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.errors import ConfigError, UsageError
from mindport.model.kernels import selector
from mindport.model.kernels.selector import Kernel, select
from mindport.parallel.layouts import LayoutParity, LayoutRun, ProcessShare, compare, compare_layouts
from mindport.parallel.layouts.compare import small_layout
from mindport.parallel.layouts.parity import HOPELESS, LIMIT, ORDER, apart
from mindport.training.config import TrainConfig
from tests.training.runs import config, write

LOSSES = (6.2, 6.0, 5.9, 5.7)


def course(layout: str, losses=LOSSES, shares=()) -> LayoutRun:
    ones = (1.0,) * len(losses)
    return LayoutRun(layout, losses, ones, 5.5, (64,) * len(losses), ones, shares)


def moved(step: int, by: float) -> tuple[float, ...]:
    return tuple(loss + by * (number == step) for number, loss in enumerate(LOSSES, 1))


def parity(*courses: LayoutRun, order: float | None = None) -> LayoutParity:
    return LayoutParity("tiny", 0.1, course("one process"), courses, order)


def test_the_same_losses_are_the_same_training():
    found = parity(course("dp2", moved(2, 3e-7)), course("tp2"))
    assert found.ok and found.exit_code == 0
    assert found.worst == pytest.approx(3e-7)
    assert "dp2 and tp2: the training of one process" in found.headline()
    assert [line.state for line in found.properties()] == ["verified", "verified"]


@given(st.integers(1, len(LOSSES)), st.floats(2e-6, 10))
def test_one_step_beyond_the_limit_is_another_training(step, by):
    found = parity(course("tp2"), course("dp2", moved(step, by)))
    assert not found.ok and found.exit_code == 1
    assert found.wrong == (f"dp2 from step {step} on",)
    assert [line.state for line in found.properties()] == ["verified", "failed"]


@pytest.mark.parametrize("losses", [moved(3, math.nan), moved(3, math.inf), LOSSES[:3], (), (*LOSSES, 5.6)])
def test_what_is_no_number_or_another_number_of_steps_is_never_the_same(losses):
    assert apart(course("dp2", losses), course("one")) == math.inf
    assert not parity(course("dp2", losses)).ok
    assert "not the same training: dp2" in parity(course("dp2", losses)).text()


def test_no_layout_is_no_answer():
    assert not parity().ok


def test_another_order_of_sums_widens_the_limit_by_what_it_costs_and_no_more():
    assert parity(course("dp2", moved(4, 7e-6)), order=2e-6).ok
    assert not parity(course("dp2", moved(4, 9e-6)), order=2e-6).ok
    assert parity(course("dp2"), order=2e-6).limit == pytest.approx(ORDER * 2e-6)
    assert "times what another order of sums costs" in parity(course("dp2", moved(4, 7e-6)), order=2e-6).headline()
    assert parity(course("dp2"), order=1e-9).limit == LIMIT


@pytest.mark.parametrize("order", [math.inf, math.nan, 1.0])
def test_an_order_that_costs_too_much_excuses_nothing(order):
    for losses in (moved(2, 2 * HOPELESS), moved(3, math.nan), LOSSES[:3]):
        found = parity(course("dp2", losses), order=order)
        assert not found.ok and found.wrong and found.properties()[0].state == "failed"


def test_a_property_names_the_device_that_computed():
    line = parity(replace(course("dp2"), device="Ascend")).properties()[0]
    assert line.backend == "Ascend"


def test_the_tables_say_who_had_what():
    shares = tuple(ProcessShare(rank, rank, 0, 1234, (8, 16), (f"3f2{rank}",)) for rank in (0, 1))
    text = parity(course("dp2", shares=shares)).text()
    assert "what each process had of it" in text and "1,234" in text and "8 × 16" in text
    assert "3f20" in text and "3f21" in text


def test_what_the_rate_leaves_out_is_the_first_step():
    slow_first = replace(course("dp2"), seconds=(100.0, 2.0, 2.0, 2.0))
    assert slow_first.rate == 32


@pytest.mark.parametrize("text", ["dp1", "pp2", "dp2,zero1", "tp2,sp", "dp2,mb4", "dp2,recompute-full", "cp2"])
def test_a_layout_that_does_not_run_here_is_refused(text):
    with pytest.raises(UsageError, match="not a layout of several processes here"):
        small_layout(text)


@pytest.mark.parametrize("text", ["dp2", "tp2", "dp2,tp2", "dp2,tp4"])
def test_a_layout_reads_as_it_was_written(text):
    assert small_layout(text).degrees == text


@pytest.mark.parametrize(("layout", "what"), [("tp3", "cannot be shared"), ("dp3", "rows of a batch do not divide")])
def test_a_layout_that_does_not_fit_is_refused_before_anything_is_trained(layout, what, tmp_path):
    with pytest.raises(ConfigError, match=what):
        compare_layouts(config(write(tmp_path), tmp_path / "one", "batch.rows=4"), ["dp2", layout], tmp_path / "out")
    assert not (tmp_path / "out").exists()


class Fast(Kernel):
    pass


class Slow(Kernel):
    pass


def test_order_is_what_plain_kernels_cost_and_nothing_where_they_are_what_runs(monkeypatch, tmp_path):
    made = []

    def alone(config, name):
        made.append(type(select("linear", {"cpu": Fast, "reference": Slow})))
        return course(name, moved(3, 5e-7))

    monkeypatch.setattr(compare, "_alone", alone)
    monkeypatch.setattr(selector, "_made", Counter())
    assert compare.order(TrainConfig(), tmp_path, course("one")) is None
    alone(None, "one")
    assert compare.order(TrainConfig(), tmp_path, course("one")) == pytest.approx(5e-7)
    assert made == [Fast, Slow]
