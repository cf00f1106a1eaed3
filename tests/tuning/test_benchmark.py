"""What is said of the figures: ratios, shares of the peaks, targets reached and missed, and a mismatch."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mindport.tuning.benchmark import Benchmark
from mindport.tuning.case import Case, Memory, Timing
from mindport.tuning.knobs import BEST, Knobs
from mindport.tuning.numerics import Agreement


def timing(median: float) -> Timing:
    return Timing(median, 0.5 * median, 0.9 * median, 1.1 * median, 2 * median)


CASE = Case(
    "T 512", {"mindport": timing(2.0), "torch": timing(4.0), "naive": timing(8.0)}, {"torch": 0.55, "naive": 0.2},
    work=200.0, unit="GFLOP/s",
    memory={"mindport": Memory(100, 350), "torch": Memory(50, 250), "naive": Memory(90, 1090)},
    numerics=(Agreement("torch", "y", 1e-7, 1e-5), Agreement("naive", "y", 9e-6, 1e-5)),
    aims={"torch": 0.6, "naive": 0.2, "compile": 1.0}, peaks={"FMA": 400.0, "GEMM": 200.0},
    about={"mindport": {"kernels": [["gelu", "cpu", "C++"]]}}, absent={"compile": "no compiler"},
)  # fmt: skip


def report(*cases: Case, kind: type[Benchmark] = Benchmark) -> Benchmark:
    return kind("attention", cases, {}, {}, 2)


def test_ratios_are_ours_over_the_peers():
    assert CASE.ratios == {"torch": 0.5, "naive": 0.25}
    assert CASE.memory_ratios == {"torch": 1.25, "naive": 0.25}
    assert CASE.rate("mindport") == 100.0 and CASE.shares("mindport") == {"FMA": 0.25, "GEMM": 0.5}


def test_targets_are_said_and_a_missed_one_is_no_failure():
    states = {(target.what, target.peer): target.state for target in CASE.targets()}
    assert states == {("time", "torch"): "reached", ("memory", "torch"): "missed", ("time", "naive"): "missed"}
    made = report(CASE)
    assert made.ok
    assert (
        "1 of 3 targets reached" in made.headline() and "time of naive in T 512 (0.25, target 0.20)" in made.headline()
    )


def test_a_mismatch_is_a_negative_verdict_and_is_shown():
    wrong = replace(CASE, numerics=(*CASE.numerics, Agreement("torch", "dq", 0.1, 1e-4)))
    made = report(CASE, wrong)
    assert not wrong.ok and not made.ok and not report().ok
    assert "NOT THE SAME COMPUTATION: T 512" in made.headline()
    rows = next(table for table in made.tables() if table.title.startswith("numerics")).rows
    assert [(row[1], row[2], row[3], row[-1]) for row in rows[-2:]] == [
        ("torch", 2, "dq", "failed"),
        ("naive", 1, "y", "pass"),
    ]


def test_the_headline_has_the_range_of_several_cases():
    slower = replace(CASE, timings={**CASE.timings, "torch": timing(2.5)})
    assert "0.65 (0.50–0.80) × torch" in report(CASE, slower).headline()


def test_the_tables_have_every_contestant():
    tables = {table.title: table for table in report(CASE).tables()}
    assert list(tables) == [
        "attention", "targets", "memory, MB", "numerics: the same computation?", "kernels of ours", "not measured",
    ]  # fmt: skip
    assert tables["attention"].rows[0][-3:] == ("100 GFLOP/s", "25%", "50%")
    assert tables["attention"].rows[1][:4] == ("T 512", "torch", "4000", "3600–4400")
    assert tables["kernels of ours"].rows == [("gelu", "cpu", "C++")]


def test_the_json_has_figures_and_what_follows_from_them():
    whole = json.loads(json.dumps(report(CASE).as_dict()))
    (case,) = whole["cases"]
    assert whole["ok"] and whole["threads"] == 2 and whole["ratios"] == {"T 512": {"torch": 0.5, "naive": 0.25}}
    assert case["timings"]["torch"]["upper_quartile"] == pytest.approx(4.4)
    assert case["memory_growth"]["torch"] == 200 and case["rates"]["torch"]["shares"]["GEMM"] == 0.25
    assert case["numerics"][0] == {"peer": "torch", "value": "y", "error": 1e-7, "limit": 1e-5}
    assert case["targets"][0] == {
        "case": "T 512", "what": "time", "peer": "torch", "ratio": 0.5, "limit": 0.6, "state": "reached",
    }  # fmt: skip


def test_knobs_are_told_by_what_they_cost():
    off = {BEST: timing(1.0), "nn.Dense": timing(1.25), "gelu: reference": timing(2.0)}
    made = report(Case("step, graph", off, {}, 1.0, "GFLOP/s"), kind=Knobs)
    assert made.tables()[0].rows == [("step, graph", "gelu: reference", 2.0), ("step, graph", "nn.Dense", 1.25)]
    assert "× 2.00 without gelu: reference, × 1.25 without nn.Dense" in made.headline()
