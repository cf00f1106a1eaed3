"""The ladder stands in its order, says what it skips, and turns red when a rung computes something else."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from mindport.sources import resolve
from mindport.tuning import cut_model
from mindport.tuning.ladder import ADDED, GRAPH, PEER, PLAIN, RECOMPUTE, TRANSLATION, Ladder, contestants, read
from mindport.tuning.shapes import Workload
from tests.tuning.studies import figure, states
from tests.tuning.test_study import case

RUNGS = (figure(TRANSLATION, 100, gradient_error=None), figure(PLAIN, 50, loss_error=None), figure(GRAPH, 20))


@pytest.fixture
def cut() -> Workload:
    return cut_model(resolve("tiny-llama"), "smoke")


def other_family(cut: Workload) -> Workload:
    return replace(cut, config=replace(cut.config, model_type="qwen3"))


def test_each_rung_switches_on_what_the_one_below_has_and_more(cut):
    fast = [set(c.settings["fast"]) for c in contestants(cut, "graph") if c.name in dict(ADDED)]
    assert all(below < above for below, above in pairwise(fast))
    assert all(set(c.settings["needs"]) <= set(c.settings["fast"]) for c in contestants(cut, "graph")
               if c.name in dict(ADDED))  # fmt: skip


def test_the_plain_rung_is_what_the_others_are_compared_with(cut):
    first, second, *_ = contestants(cut, "graph")
    assert (first.name, second.name) == (PLAIN, GRAPH) and not first.optional
    assert first.settings["fast"] == second.settings["fast"] == ()


def test_peers_are_left_out_of_other_families_and_it_is_said(cut):
    names = [c.name for c in contestants(other_family(cut), "graph")]
    assert TRANSLATION not in names and PEER not in names
    found = read(other_family(cut), case((GRAPH, "loss 1", 0.0)), "graph")
    assert "qwen3" in found.skipped[PEER] and found.skipped.keys() == {TRANSLATION, PEER}


def test_rungs_are_read_in_the_order_of_the_ladder(cut):
    raced = case((RECOMPUTE, "loss 1", 0.0), (GRAPH, "loss 1", 0.0), (TRANSLATION, "loss 1", 0.0),
                 absent={"+ fused loss": "BackendError: no compiler\nmore"})  # fmt: skip
    found = read(cut, raced, "graph")
    assert [rung.name for rung in found.rungs] == [TRANSLATION, GRAPH, RECOMPUTE]
    assert found.skipped == {"+ fused loss": "no compiler"} and found.torch is None


def test_all_the_same_is_positive_and_a_skipped_rung_is_on_the_card():
    ladder = Ladder("w", RUNGS, figure(PEER, 40, gradient_error=None), {"+ fused loss": "no compiler"}, "graph")
    assert ladder.ok and states(ladder) == ["verified", "skipped"]
    assert "5.0 times as fast" in ladder.headline() and "0.50 × torch eager" in ladder.headline()
    assert [row[-1] for row in ladder.tables()[0].rows] == ["pass"] * 4 + ["skipped (no compiler)"]


def test_one_rung_that_is_off_turns_it_red():
    ladder = Ladder("w", (*RUNGS, figure("+ fast", 1, gradient_error=0.3)), None, {}, "graph")
    assert not ladder.ok and states(ladder) == ["failed"]
    assert "NOT THE SAME COMPUTATION: + fast" in ladder.headline()


def test_a_peer_that_computes_something_else_turns_it_red():
    assert not Ladder("w", RUNGS, figure(PEER, loss_error=0.1), {}, "graph").ok
