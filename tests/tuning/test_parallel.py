"""The benchmark of several processes, with answers made up: what a speed-up is, what talk, and the line through it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.errors import BackendError
from mindport.parallel.plan.sizes import sizes
from mindport.tuning import parallel, ranks, shapes
from mindport.tuning.links import MEBI, Link, Message, fit, predicted
from mindport.tuning.parallel_case import ONE, SILENT, Parallel
from mindport.tuning.registry import BENCHMARKS, bench

LINE = Link(1e-3, 100 * MEBI)
JOB = shapes.quick(parallel.JOB)
BOTH = "1 process, 2 threads"
PROCESSES = {ONE: (1, 1), BOTH: (1, 2), **dict.fromkeys(parallel.LAYOUTS, (2, 1))}
TIMES = {ONE: 1.0, BOTH: 0.5, parallel.DP: 0.8, parallel.LOOSE: 1.0, SILENT: 0.55, parallel.TP: 0.9}


def answers(off: float = 0.0, noise: float = 1.0):
    """Of two ranks, the second a little slower; the losses of tp are off by so much."""
    sent = [
        {"bytes": size, "seconds": noise ** (i % 2) * LINE.seconds(Message(size, 0))}
        for i, size in enumerate(parallel.SIZES)
    ]
    buckets = [{"mebibytes": size, "messages": n, "bytes": 20 * MEBI, "seconds": n * 1e-3 + 0.2}
               for size, n in ((0.0, 50), (16.0, 2))]  # fmt: skip
    tensor = {"messages": 22, "bytes": 36 * MEBI, "seconds": 0.45}

    def rank(number: int, factor: float):
        alone = lambda who, t: [] if PROCESSES[who][0] == 1 and number else [factor * t]  # noqa: E731
        losses = {who: [5.0, 4.0 + off * (who == parallel.TP)] for who in PROCESSES}
        losses[SILENT] = [9.0, 9.0]
        return {"rank": number, "seconds": {who: [alone(who, t)] * 3 for who, t in TIMES.items()},
                "losses": losses, "collectives": sent, "buckets": buckets, "tensor": tensor}  # fmt: skip

    return [rank(0, 1.0), rank(1, 1.25)]


def made(**changes) -> Parallel:
    return Parallel("parallel", (parallel.judged(JOB, answers(**changes), PROCESSES),), {}, {}, 2)


def test_a_step_ends_with_its_last_rank_and_is_held_to_one_process_on_one_thread_and_on_all():
    (case,) = made().cases
    assert case.timings[parallel.DP].median == 1.0 and case.timings[ONE].median == 1.0 and case.whole == BOTH
    assert case.speed_up(parallel.DP, ONE) == 1.0 and case.speed_up(parallel.DP, BOTH) == 0.5
    assert case.rate(BOTH) == pytest.approx(JOB.batch * JOB.tokens / 0.5)


def test_talk_is_measured_twice():
    (case,) = made().cases
    assert case.share(parallel.DP) == pytest.approx(0.202) and case.share(parallel.LOOSE) == pytest.approx(0.2)
    assert case.share(parallel.TP) == pytest.approx(0.45 / 1.125) and case.left_out(parallel.TP) is None
    assert case.left_out(parallel.DP) == pytest.approx(1.25 * (0.8 - 0.55))


def test_what_exchanges_nothing_is_no_training_and_is_not_compared():
    result = made()
    assert result.ok and {row.peer for row in result.cases[0].numerics} == {BOTH, *parallel.LAYOUTS} - {SILENT}
    wrong = made(off=1e-3)
    assert not wrong.ok and "NOT THE SAME" in wrong.headline() and wrong.exit_code == 1


def test_the_answer_says_that_one_process_uses_all_cores_too():
    result = made()
    assert "2 cores, which one process uses as well as two" in result.headline()
    assert "0.50 × one on 2, 20% of its step is talk" in result.headline()
    titles = [table.title for table in result.tables()]
    assert titles[1:4] == ["what a step sends", "AllReduce between the processes",
                           "the gradients, 20 MiB, added up in buckets"]  # fmt: skip
    speeds, talk, _, buckets = result.tables()[:4]
    assert [row[1] for row in speeds.rows] == ["1 × 1", "1 × 2", *["2 × 1"] * 4]
    assert buckets.rows[1][:2] == ("16 MiB", 2) and buckets.rows[0][0] == "each alone"
    assert [row[-1] is None for row in talk.rows] == [False, True, False]
    assert json.dumps(result.as_dict()) and result.text()


@settings(max_examples=15, deadline=None)
@given(st.floats(1e-5, 1e-2), st.floats(1e6, 1e10))
def test_a_line_is_found_again(latency, bandwidth):
    link = Link(latency, bandwidth)
    sent = [Message(size, link.seconds(Message(size, 0.0))) for size in parallel.SIZES]
    found = fit(sent)
    assert [found.seconds(message) for message in sent] == pytest.approx([m.seconds for m in sent], rel=0.01)


def test_a_message_that_the_machine_was_busy_in_does_not_move_the_line_far():
    sent = [Message(size, LINE.seconds(Message(size, 0.0)) * (20 if size == 2**18 else 1)) for size in parallel.SIZES]
    found = fit(sent)
    assert found.latency == pytest.approx(LINE.latency, rel=0.05)
    assert found.bandwidth == pytest.approx(LINE.bandwidth, rel=0.05)


def test_noise_never_makes_a_link_that_is_faster_than_nothing():
    for seconds in ([1e-3, 1e-3, 1e-3], [3e-3, 2e-3, 1e-3], [1e-6, 1e-2, 1.0], [1e-9, 1e-3, 1e-1]):
        found = fit([Message(size, s) for size, s in zip((2**12, 2**20, 2**24), seconds, strict=True)])
        assert found.latency > 0 and 0 < found.bandwidth < float("inf")
    with pytest.raises(BackendError, match="two sizes"):
        fit([Message(1, 1.0), Message(1, 2.0)])


def test_the_planner_predicts_one_message_of_all_gradients_and_four_a_layer():
    config = shapes.gpt2(64, 4, layers=3, vocab_size=96, context=32)
    plan = predicted(config, 4, 32, LINE)
    hidden = 4 * 4 * 32 * 64
    assert plan["tp"] == pytest.approx(12 * LINE.seconds(Message(hidden, 0)), rel=1e-6)
    assert plan["dp"] == pytest.approx(LINE.seconds(Message(4 * sizes(config).parameters, 0)), rel=1e-6)


def test_it_is_launched_once_for_everybody(monkeypatch):
    asked = {}

    def call(function, arguments, **options):
        asked.update(arguments, function=function, **options)
        return answers()

    monkeypatch.setattr(parallel, "call", call)
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    result = bench("parallel", quick=True)
    assert BENCHMARKS["parallel"][1] is Parallel and result.ok and len(result.cases) == 1
    assert asked["workers"] == 2 and asked["threads"] == {ONE: 1, BOTH: 2} and asked["rounds"] == 2
    json.dumps({name: value for name, value in asked.items() if name != "timeout"})
    rows = 4 * JOB.batch * JOB.tokens
    sent = ranks.tensor_messages(ranks.Task(**asked["task"]), 2)
    assert sent == [rows * JOB.config.hidden_size] * 10 + [6 * rows, 4]


@pytest.mark.parametrize("count", [1, 4])
def test_a_machine_with_other_cores(monkeypatch, count):
    seen = {}
    monkeypatch.setattr(parallel, "cores", lambda: count)
    monkeypatch.setattr(parallel, "call", lambda *_, **__: answers())
    monkeypatch.setattr(parallel, "judged", lambda job, found, processes: seen.update(processes))
    parallel.case(JOB, **parallel.QUICK)
    assert seen[parallel.TP] == (2, max(1, count // 2)) and seen[f"1 process, {count} thread{'s' * (count > 1)}"]
