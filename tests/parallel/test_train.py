"""A training on two real processes beside one: the same losses, the same files, and an end for all of them together."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from mindport import cli
from mindport.errors import ConfigError, FileError, UsageError
from mindport.files import locked
from mindport.parallel import train as parallel_train
from mindport.parallel.launch import LaunchFailed, LaunchReport, call
from mindport.parallel.train import train
from mindport.ranks import Ranks
from mindport.training import Trainer, parts, read_checkpoint
from mindport.training.estimate import estimate
from mindport.training.monitor import Sample, read_metrics
from mindport.training.run_directory import RunDirectory
from mindport.training.start import described_model
from mindport.training.text import open_text
from mindport.training.train_report import read_report
from tests.parallel.train_ranks import Rows
from tests.training.runs import EVERY, STEPS, config, write

LIMIT = 2e-6  # of losses near 6: four of the last digit of float32, for two passes, two ranks and a mean
MOVED = 1e-5  # of weights: a thousandth of a step, since AdamW makes a step of any gradient, however small


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """At a rate at which AdamW does not make a loss of what rounding leaves in the gradients."""
    path = write(tmp_path_factory.mktemp("training"))
    path.write_text(path.read_text("utf-8").replace("lr: 1e-2", "lr: 1e-3"), "utf-8")
    return path


@pytest.fixture(scope="module")
def alone(path, tmp_path_factory):
    """The same training in one process: report, directory, and rows that it was fed."""
    out, rows = tmp_path_factory.mktemp("alone") / "run", Rows()
    report = Trainer(config(path, out), [rows], quiet=True).run()
    return report, RunDirectory(out), rows.seen


@pytest.fixture(scope="module")
def found(path, alone, tmp_path_factory):
    """What two ranks answered, and where their runs are."""
    out = tmp_path_factory.mktemp("ranks")
    return call("tests.parallel.train_ranks:everything", {"path": str(path), "out": str(out)}, workers=2,
                say=lambda line: None, timeout=600), out  # fmt: skip


def losses(report) -> np.ndarray:
    return np.array([loss for _, loss, _, _ in report.curve])


def apart(one: Path, other: Path) -> float:
    """How far the last checkpoints of two runs are from each other, weights and means."""
    a, b = (read_checkpoint(sorted(run.glob("checkpoints/step-*"))[-1]) for run in (one, other))
    assert a.step == b.step and a.weights.keys() == b.weights.keys() and a.state.keys() == b.state.keys()
    pairs = [(x[name], y[name]) for x, y in ((a.weights, b.weights), (a.state, b.state)) for name in x]
    return max(float(np.abs(x.astype(np.float64) - y).max()) for x, y in pairs)


@pytest.mark.slow
def test_two_ranks_train_as_one_process(found, alone, path, tmp_path):
    """One launch, for it takes as long as all that is asked of it."""
    (first, second), out = found
    check_messages(first, second)
    check_buckets(first, second)
    check_masks(first, second)
    check_layouts(first, second, alone, out)
    check_resume(first, alone, out, path, tmp_path)
    check_ends(first, second, out)


def check_messages(first, second):
    for told in (first["messages"], second["messages"]):
        assert told["bits"] == [first["messages"]["sent"], second["messages"]["sent"]]
        assert told["total"] == [2.0**41 + 1, 0.2] and told["most"] == [1.0, 0.0]
    assert (first["messages"]["share"], second["messages"]["share"]) == ([0.0], [1.0])


def check_buckets(first, second):
    one, other = first["buckets"], second["buckets"]
    sums = [np.add(np.float32(a), np.float32(b)).tolist() for a, b in zip(one["mine"], other["mine"], strict=True)]
    assert len(one["sums"]) == 6 and not (one["overflow"] or other["overflow"])
    for told in (*one["sums"].values(), *other["sums"].values()):
        assert told == [sums, 4.0, 4.0]  # bit for bit, whatever the bucket and the mode


def check_masks(first, second):
    for told in (first["masked"], second["masked"]):
        for hidden, (one, two) in told["records"].items():
            assert one[2:] == two[2:]
            if hidden == "24":
                assert one == two == ["nan", "nan", 0, 24, False]
            else:
                assert two[:2] == pytest.approx(one[:2], rel=LIMIT)
        assert told["apart"] <= MOVED
    assert first["masked"]["records"]["12"][0][2] == 11  # of the first row; the second has nothing


def check_layouts(first, second, alone, out):
    report, run, rows = alone
    assert first["dp"]["ok"] and second["dp"]["step"] == first["tp"] == second["tp"] == STEPS
    for name in ("dp", "tp"):
        told = read_report(out / name / "report.json")
        assert np.abs(losses(told) - losses(report)).max() <= LIMIT, name
        for ours, theirs in zip(told.held_out, report.held_out, strict=True):
            assert ours.loss == pytest.approx(theirs.loss, abs=LIMIT) and ours.tokens == theirs.tokens
        assert apart(out / name, run.path) <= MOVED, name
    seen = [row for pair in zip(first["dp"]["rows"], second["dp"]["rows"], strict=True) for row in pair]
    assert seen == rows and first["dp"]["tokens"] == second["dp"]["tokens"] == [48] * STEPS
    assert first["graph"] == second["graph"] == 2
    samples = [event for event in read_metrics(out / "tp" / "metrics.jsonl") if isinstance(event, Sample)]
    assert [(sample.step, sample.prompt) for sample in samples] == [(4, "To be"), (STEPS, "To be")]


def check_resume(first, alone, out, path, tmp_path):
    assert first["again"] == {"resumed": EVERY, "differences": []}
    assert apart(out / "other", out / "dp") <= MOVED
    assert len(first["other"]) == 2 and first["other"][0].startswith("parallel.dp was 2 and is 1")
    shares = tmp_path / "run"  # of two processes, with which one goes on
    shutil.copytree(out / "tp", shares)
    for later in sorted(shares.glob("checkpoints/step-*"))[1:]:
        shutil.rmtree(later)
    report = Trainer(config(path, shares), quiet=True).run(resume=True)
    assert report.resumed == EVERY and np.abs(losses(report) - losses(alone[0])).max() <= LIMIT


def check_ends(first, second, out):
    """A signal, a wish, and a weight that one rank has alone: all end after the same step, and say the same."""
    assert first["signal"] == second["signal"] and first["stop"] == second["stop"]
    assert (first["signal"]["step"], first["signal"]["code"]) == (5, 128 + signal.SIGTERM)
    assert first["signal"]["checkpoints"][-1] == "step-00000005"
    assert first["stop"]["step"] == 2 and first["stop"]["ended"] == "a callback of another rank ended it"
    spoilt = first["spoilt"]
    assert spoilt == second["spoilt"] and (spoilt["step"], spoilt["code"]) == (2 * EVERY, 1)
    assert spoilt["checkpoints"] == [f"step-0000000{EVERY}"] and len(spoilt["alarms"]) == 1
    assert "ranks differ" in spoilt["alarms"][0] and "blocks.0.mlp.up.bias on rank 1" in spoilt["alarms"][0]


def planted(monkeypatch, answer):
    """In place of a launch: what it would have answered."""
    calls = []

    def fake(function, arguments, *, workers, log_dir, say):
        calls.append((function, arguments, workers))
        assert log_dir.is_dir() and not any(log_dir.iterdir())
        say("[rank 0] step 1")
        return answer(arguments)

    monkeypatch.setattr(parallel_train, "call", fake)
    return calls


def test_ranks_are_launched_and_their_report_is_the_answer(path, alone, tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"

    def answer(arguments):
        assert (path.parent / "rows" / "manifest.json").is_file()  # no rank has to wait for the text
        shutil.copy(alone[1].report, out / "report.json")

    calls = planted(monkeypatch, answer)
    assert train(config(path, out, "parallel.dp=2")) == alone[0]
    (function, arguments, workers), *_ = calls
    assert (function, workers, arguments["resume"]) == ("mindport.parallel.train:rank", 2, False)
    assert json.loads(json.dumps(arguments))["config"]["parallel"]["dp"] == 2
    assert "step 1\n" in capsys.readouterr().err


def test_what_cannot_be_is_said_before_anything_is_launched(path, tmp_path, monkeypatch):
    calls = planted(monkeypatch, lambda arguments: None)
    for settings, what in (("parallel.tp=3", "cannot be shared"), ("data.train=[nowhere.txt]", "nowhere|no such")):
        with pytest.raises((ConfigError, FileError), match=what):
            train(config(path, tmp_path / "run", "parallel.tp=2", settings))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(FileError, match="holds something else"):
        train(config(path, tmp_path / "full", "parallel.tp=2"))
    assert not calls


def test_more_processes_than_a_machine_starts_are_refused_before_the_text_is_read(path, tmp_path, monkeypatch):
    calls = planted(monkeypatch, lambda arguments: None)
    with pytest.raises(UsageError, match=r"cannot be started: workers[\s\S]*parallel\.dp"):
        train(config(path, tmp_path / "run", "parallel.dp=1000", "batch.rows=1000"))
    assert not calls and not (tmp_path / "run").exists()


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_first_rank_alone_takes_the_lock_of_the_text(path, tmp_path, monkeypatch, rank):
    """Of three ranks two would take it at once, and one be refused."""

    class Opened(Exception):
        pass

    def opened(config, *, ready=False):
        raise Opened(ready)

    monkeypatch.setattr(parts, "after_first", lambda ranks: contextlib.nullcontext())
    monkeypatch.setattr(parts, "open_text", opened)
    told = config(path, tmp_path / "run")
    with pytest.raises(Opened) as caught, parts.assemble(told, RunDirectory(told.out), ranks=Ranks(3, 1, rank, "dp")):
        pass
    assert caught.value.args == (rank > 0,)


def test_text_that_is_ready_opens_while_another_rank_holds_it(path, alone):
    told = config(path, alone[1].path)
    with locked(path.parent / "rows" / ".lock", "busy", "wait"):
        assert open_text(told, ready=True).digest
        with pytest.raises(UsageError, match="another process prepares"):
            open_text(told)


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_signal_before_the_ranks_have_begun_ends_the_launch(path, tmp_path, monkeypatch, number, raised):
    def answer(arguments):
        os.kill(os.getpid(), number)
        raise AssertionError("the launch went on")

    planted(monkeypatch, answer)
    with pytest.raises(raised):
        train(config(path, tmp_path / "run", "parallel.dp=2"), quiet=True)


def test_a_rank_that_breaks_is_named_with_the_way_to_go_on(path, alone, tmp_path, monkeypatch):
    def answer(arguments):
        (tmp_path / "run" / "checkpoints" / "step-00000003").mkdir(parents=True)
        raise LaunchFailed(LaunchReport("x", 2, 1.0, tmp_path, (), None, "rank 1 was killed"))

    planted(monkeypatch, answer)
    with pytest.raises(LaunchFailed, match="rank 1 was killed") as caught:
        train(config(path, tmp_path / "run", "parallel.dp=2"), quiet=True)
    assert "--resume" in caught.value.do


def test_torch_beside_several_processes_is_refused(path, tmp_path, capsys):
    settings = ["--set", "parallel.dp=2", "--set", "dropout=0", "--out", str(tmp_path / "run")]
    assert cli.main(["train", str(path), "--beside-torch", *settings]) == 2
    assert "torch's training beside ours is one process" in capsys.readouterr().err


def test_the_estimate_counts_what_each_process_has(path):
    told = config(path, path.parent, "batch.accumulate=1")
    model = described_model(told)[1]

    def weights(**layout: int) -> int:
        return estimate(dataclasses.replace(told, parallel=dataclasses.replace(told.parallel, **layout)), model).weights

    one = weights()
    assert weights(dp=2) == 2 * one * 5 // 4 and one < weights(tp=2) < 1.5 * one
