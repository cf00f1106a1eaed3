"""Turns are taken, medians and spread are right, and a drift of the machine does not pass for a difference."""

from __future__ import annotations

import time

from mindport.tuning.case import Timing
from mindport.tuning.harness import compare, paired_ratios, take_turns, timings


def test_contestants_take_turns_and_change_their_order():
    order: list[str] = []

    def note(who: str):
        return lambda: order.append(who) or [1.0]

    seconds = take_turns({"ours": note("o"), "peer": note("p")}, rounds=3)
    assert "".join(order) == "oppoop"
    assert seconds == {"ours": [[1.0]] * 3, "peer": [[1.0]] * 3}


def test_order_statistics_are_over_all_calls():
    timing = timings({"ours": [[5.0, 1.0], [2.0, 4.0], [3.0]]})["ours"]
    assert timing == Timing(median=3.0, fastest=1.0, lower_quartile=2.0, upper_quartile=4.0, slowest=5.0)


def test_one_call_has_no_spread():
    assert Timing.of([2.0]) == Timing(2.0, 2.0, 2.0, 2.0, 2.0)


def test_the_ratio_within_rounds_is_not_moved_by_a_machine_that_slows_down():
    """Ours takes half the peer's time in every round, while the machine becomes eight times slower."""
    seconds = {"ours": [[1.0], [2.0], [4.0], [8.0]], "peer": [[2.0], [4.0], [8.0], [16.0]]}
    assert paired_ratios(seconds) == {"peer": 0.5}
    assert paired_ratios({"ours": seconds["peer"], "peer": seconds["ours"]}) == {"peer": 2.0}


def test_functions_of_this_process_are_warmed_up_once_and_the_slower_one_has_the_higher_ratio():
    calls: list[int] = []
    both = {"ours": lambda: (calls.append(1), time.sleep(0.01)), "peer": lambda: None}
    case = compare("c", both, work=1, unit="u", repeats=2)
    assert len(calls) == 3 and list(case.timings) == ["ours", "peer"]
    assert case.ratios["peer"] > 1 and case.paired["peer"] > 1
