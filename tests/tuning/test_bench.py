"""The benchmarks by name, from the command line, and what becomes of their answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindport import cli, sources, tuning
from mindport.errors import UsageError
from mindport.tuning import data
from mindport.tuning.benchmark import Benchmark
from mindport.tuning.case import Case, Timing
from mindport.tuning.contestant import Contestant
from mindport.tuning.numerics import Agreement
from mindport.tuning.registry import BENCHMARKS, bench


@pytest.fixture
def answers(monkeypatch):
    """Let `bench` answer with one case, whose numerics are off by `error`."""

    def answer(error: float = 0.0) -> list[tuple[str, bool]]:
        asked: list[tuple[str, bool]] = []
        one = Timing.of([1.0, 2.0])
        case = Case(
            "c", {"ours": one, "peer": one}, {"peer": 1.0}, 1.0, "u", numerics=(Agreement("peer", "y", error, 1e-5),)
        )

        def run(name: str, quick: bool = False) -> Benchmark:
            asked.append((name, quick))
            return Benchmark(name, (case,), {}, {}, 1)

        monkeypatch.setattr(tuning, "bench", run)
        return asked

    return answer


def test_an_unknown_benchmark_is_refused():
    with pytest.raises(UsageError, match="attention, layer, step, train, knobs, convert, data"):
        bench("poetry")


def test_the_makefile_runs_every_benchmark():
    line = next(
        line for line in (Path(__file__).parents[2] / "Makefile").read_text().splitlines() if "for name in" in line
    )
    assert line.split(" in ")[1].split(";")[0].split() == list(BENCHMARKS)


def test_conversion_is_timed_both_ways():
    made = bench("convert", quick=True)
    assert made.ok and [case.name for case in made.cases] == ["to mindspore", "to huggingface"]
    memory = made.cases[0].memory["mindport"]
    assert 0 < memory.before <= memory.peak
    assert "MB/s" in made.tables()[0].text()


def test_data_is_read_by_the_peer_as_the_same_rows():
    text = {**data.QUICK, "model": str(sources.resolve("tiny-gpt2"))}
    who = [Contestant(name, module, "read_batches", text) for name, module in (("o", data.OURS), ("p", data.PEER))]
    made = data.timed("reading", who, {"p": data.AIM}, rounds=2, quick=True)
    assert made.ok and {row.value for row in made.numerics} == {"ids", "rows"}
    assert made.work == made.about["o"]["tokens"] / 1e6


def test_the_answer_in_words(answers, capfd):
    asked = answers()
    assert cli.main(["bench", "step", "--quick"]) == 0
    assert asked == [("step", True)] and "1.00 × peer" in capfd.readouterr().out


def test_the_answer_in_a_file_and_in_words(answers, tmp_path, capfd):
    answers()
    file = tmp_path / "new" / "step.json"
    assert cli.main(["bench", "step", "--json", str(file)]) == 0
    assert json.loads(file.read_text())["cases"][0]["ratios"] == {"peer": 1.0}
    assert capfd.readouterr().out.startswith("step, wall time")


def test_the_answer_as_json_on_stdout(answers, capfd):
    answers()
    assert cli.main(["bench", "step", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["name"] == "step"


def test_where_the_answer_cannot_be_written_nothing_is_timed(answers, tmp_path):
    asked = answers()
    (tmp_path / "file").touch()
    assert cli.main(["bench", "step", "--json", str(tmp_path / "file" / "step.json")]) == 2
    assert asked == []


def test_a_mismatch_is_a_negative_verdict_that_is_written_too(answers, tmp_path, capfd):
    answers(error=0.1)
    assert cli.main(["bench", "step", "--json", str(tmp_path / "step.json")]) == 1
    assert json.loads((tmp_path / "step.json").read_text())["ok"] is False
    assert "NOT THE SAME COMPUTATION" in capfd.readouterr().out


def test_shares_are_of_the_highest_peaks_that_the_run_saw(monkeypatch):
    """A machine that was busy for a moment would show more than 100 % of itself."""
    one = Timing.of([1.0, 2.0])
    cases = [Case(name, {"ours": one}, {}, 1.0, "u", peaks=peaks)
             for name, peaks in (("a", {"FMA": 10.0}), ("b", {"FMA": 20.0}), ("c", {}))]  # fmt: skip
    monkeypatch.setattr("mindport.tuning.step.cases", lambda quick: iter(cases))
    assert [case.peaks for case in bench("step").cases] == [{"FMA": 20.0}, {"FMA": 20.0}, {}]
