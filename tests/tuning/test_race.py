"""The processes: each contestant in its own, their answers kept apart from what they print, their end certain."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mindport import measure
from mindport.errors import BackendError, FileError
from mindport.machine import cores
from mindport.tuning.contestant import Contestant
from mindport.tuning.race import Plan, Worker, machine_peaks, race
from tests.tuning.fakes import MODULE

QUICK = Plan.of(1.0, {"": 1e-6}, {}, quick=True)


@pytest.fixture(autouse=True)
def _fakes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))


def fake(name: str, function: str = "constant", optional: bool = False, **settings: object) -> Contestant:
    return Contestant(name, MODULE, function, settings, optional)


def test_equal_contestants_make_a_case():
    case = race("c", [fake("ours", about="here"), fake("peer")], QUICK, {"other": "not today"})
    assert case.ok and list(case.timings) == list(case.memory) == ["ours", "peer"] and set(case.paired) == {"peer"}
    assert case.about["ours"] == {"about": "here"} and case.absent == {"other": "not today"}


def test_a_different_computation_is_found():
    case = race("c", [fake("ours"), fake("peer", value=1.1), fake("same")], QUICK)
    assert [(row.peer, row.ok) for row in case.numerics] == [("peer", False), ("same", True)] and not case.ok


def test_calls_and_threads_are_the_plans():
    plan = replace(QUICK, rounds=3, calls=2, warm_up=4)
    case = race("c", [fake("ours", "counting"), fake("peer", "counting")], plan)
    assert case.ok and case.about["ours"]["omp"] == "1"
    assert not race("c", [fake("ours", "counting"), fake("peer", value=10.0, shape=())], plan).ok  # other names
    assert Plan.of(1.0, {}, {}).threads == cores()


def test_memory_is_the_peak_over_the_state_before_building():
    case = race("c", [fake("ours", "hungry", megabytes=200), fake("peer", "hungry", megabytes=20)], QUICK)
    assert 180 < case.memory["ours"].growth < 260
    assert case.memory["peer"].growth < 100
    assert case.memory_ratios["peer"] > 2


def test_what_a_contestant_prints_is_no_answer():
    assert race("c", [fake("ours", "loud"), fake("peer")], QUICK).ok


def test_one_that_cannot_be_built_says_why():
    with pytest.raises(BackendError, match="failed to build") as raised:
        race("c", [fake("ours"), fake("peer", "refusing")], QUICK)
    assert raised.value.where == "peer" and "no such operator here" in str(raised.value.got)
    with pytest.raises(BackendError, match="No module named 'no_such'"):
        race("c", [Contestant("ours", "no_such", "x")], QUICK)


def test_an_optional_one_is_left_out_and_said():
    case = race("c", [fake("ours"), fake("peer"), fake("extra", "refusing", optional=True)], QUICK)
    assert list(case.timings) == ["ours", "peer"] and "no such operator here" in case.absent["extra"]


def test_one_that_dies_is_told_with_its_last_words():
    with pytest.raises(BackendError, match="failed to time") as raised:
        race("c", [fake("ours", "dying")], QUICK)
    assert "ended with 3" in str(raised.value.got) and "killed by a signal" in str(raised.value.got)


def test_one_that_hangs_is_ended_and_told(monkeypatch):
    monkeypatch.setattr("mindport.tuning.race.PATIENCE", 3.0)
    with pytest.raises(BackendError, match="failed to time") as raised:
        race("c", [fake("ours", "hanging")], QUICK)
    assert "ended with -9" in str(raised.value.got)


def test_no_process_outlives_its_case(tmp_path):
    with pytest.raises(KeyboardInterrupt), Worker(fake("ours"), tmp_path / "w", 1) as worker:
        worker.build(1)
        raise KeyboardInterrupt
    assert worker.process.returncode is not None


def test_an_interrupt_leaves_no_timer_that_python_would_wait_for(tmp_path):
    def interrupted() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Worker(fake("ours"), tmp_path / "w", 1) as worker:
        answers, worker.answers = worker.answers, SimpleNamespace(readline=interrupted)
        try:
            worker.memory()
        finally:
            worker.answers = answers
    timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
    assert all(timer.finished.is_set() for timer in timers)


def test_more_work_means_fewer_calls():
    calls = [Plan.of(gflop, {}, {}).calls for gflop in (1e-3, 1.0, 5.0, 1e3)]
    assert calls == sorted(calls, reverse=True) and calls[0] == 50 and calls[-1] == 1


def test_the_peaks_are_those_of_the_machine_now(monkeypatch):
    peak = SimpleNamespace(fma_peak=lambda threads: 100.0 * threads, gemm_peak=lambda threads: 90.0 * threads)
    monkeypatch.setitem(sys.modules, "mindport.measure.peak", peak)
    monkeypatch.setattr(measure, "peak", peak, raising=False)
    case = race("c", [fake("ours"), fake("peer")], replace(QUICK, peaks=True, threads=2))
    assert case.peaks == {"FMA": 200.0, "GEMM": 180.0} and case.shares("ours").keys() == {"FMA", "GEMM"}


@pytest.mark.parametrize("kind", [BackendError, FileError])
def test_without_a_library_there_are_no_peaks_and_that_is_said(monkeypatch, kind):
    def refuse(threads: int) -> float:
        raise kind("no compiler")

    peak = SimpleNamespace(fma_peak=refuse)
    monkeypatch.setitem(sys.modules, "mindport.measure.peak", peak)
    monkeypatch.setattr(measure, "peak", peak, raising=False)
    absent: dict[str, str] = {}
    assert machine_peaks(1, absent) == {} and absent == {"the machine's peaks": "no compiler"}
