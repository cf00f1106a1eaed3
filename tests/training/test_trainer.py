"""A training from its configuration to its report: exact on resume, and ended well whatever ends it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from mindport import cli, processes
from mindport.errors import BackendError, ConfigError, FileError, UsageError
from mindport.files import write_json
from mindport.model import load_model
from mindport.results import plain
from mindport.training import Callback, StopAt, Trainer
from mindport.training.callbacks import CallbackFailed
from mindport.training.checkpoint import read_checkpoint
from mindport.training.config import read_config
from mindport.training.kill_test import compare_runs
from mindport.training.monitor import Alarm, read_metrics
from mindport.training.run_directory import MARK, RunDirectory
from mindport.training.train_report import read_report
from tests.training.runs import EVERY, KILLED, STEPS, Diary, Kill, Killed, config, write


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="module")
def whole(path, tmp_path_factory):
    """A run that nothing disturbed, its diary, and its directory."""
    out, diary = tmp_path_factory.mktemp("whole") / "run", Diary()
    report = Trainer(config(path, out), [diary]).run()
    return report, diary.events, RunDirectory(out)


def test_an_undisturbed_run_is_reported(whole):
    report, _, run = whole
    assert report.ok and report.exit_code == 0 and report.step == STEPS and report.resumed is None
    assert [step for step, *_ in report.curve] == list(range(1, STEPS + 1))
    assert [each.step for each in report.held_out] == [0, 4, STEPS]
    assert [path.name for path in report.checkpoints] == ["step-00000003", "step-00000006", "step-00000008"]
    assert report.best == run.checkpoints / "step-00000008" and report.last_loss < report.first_loss
    assert report.headline().startswith("8 of 8 steps: held-out perplexity 5") and report.pace.tokens_per_second > 0
    assert {line.state for line in report.properties()} == {"verified"}
    assert json.loads(run.report.read_text("utf-8")) == json.loads(json.dumps(plain(report.as_dict())))
    assert "held-out text" in report.text() and read_report(run.report) == report


def test_a_report_comes_back_from_its_file(whole, tmp_path):
    """Also what JSON has no word for; another file is no report."""
    pace = dataclasses.replace(whole[0].pace, seconds=None, mfu=None)
    alarm = Alarm(5, "not finite", "nan", ("a cause",), "do", fatal=True)
    curve = (*whole[0].curve[:-1], (8, math.inf, -math.inf, 0.5))
    report = dataclasses.replace(whole[0], signal=signal.SIGTERM, pace=pace, alarms=(alarm,), best=None, curve=curve)
    path = write_json(tmp_path / "report.json", plain(report.as_dict()))
    assert read_report(path) == report and read_report(path).exit_code == 143
    for wrong in ({}, {**plain(report.as_dict()), "curve": [[1, "x", 0, 0]]}):
        with pytest.raises(FileError, match="no report of a training"):
            read_report(write_json(path, wrong))


def test_a_trainer_is_for_the_processes_that_the_configuration_asks_for(path, tmp_path):
    with pytest.raises(UsageError, match="other processes than there are"):
        Trainer(config(path, tmp_path / "run", "parallel.dp=2"))
    with pytest.raises(ConfigError, match="do not divide among the replicas"):
        config(path, tmp_path / "run", "parallel.dp=3")


def test_what_lies_in_the_directory_can_be_used(path, whole):
    _, _, run = whole
    assert read_config(run.config) == config(path, run.path)
    model = load_model(run.checkpoints / "step-00000008")
    saved = read_checkpoint(run.checkpoints / "step-00000008")
    assert all(np.array_equal(w.asnumpy(), saved.weights[w.name]) for w in model.get_parameters())


def test_callbacks_are_told_in_order(whole):
    events = whole[1]
    assert events[:4] == ["start 0", "evaluation 0", "batch 0", "step 1"] and events[-1] == f"end {STEPS}"
    assert [e for e in events if e.startswith("checkpoint")] == ["checkpoint 3", "checkpoint 6", "checkpoint 8"]
    assert events.index("step 3") < events.index("checkpoint 3") < events.index("batch 3")


def resumed_is_whole(path: Path, whole, out: Path) -> None:
    """Resume the run in `out`, and hold it to the undisturbed one."""
    report = Trainer(config(path, out)).run(resume=True)
    found = compare_runs(whole[2], RunDirectory(out))
    assert found.ok, found.text()
    assert report.ok and len(report.curve) == STEPS == found.steps and found.arrays > 40 and found.measurements == 3


def test_a_run_killed_by_the_system_is_the_run_that_was_not(path, whole, tmp_path):
    script = (
        "import os, signal, sys; from pathlib import Path; from mindport.training import Trainer\n"
        "from tests.training.runs import Kill, Killed, config\n"
        "class Die(Kill):\n"
        "    def on_step(self, run, record):\n"
        "        if record.step == self.last: run.wait(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "Trainer(config(Path(sys.argv[1]), Path(sys.argv[2])), [Die()]).run()\n"
    )
    out, root = tmp_path / "run", Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script, str(path), str(out)], env=processes.environment(), cwd=root)
    assert done.returncode == -signal.SIGKILL
    assert [event.step for event in read_metrics(out / "metrics.jsonl")][-1] == KILLED
    assert [each.name for each in out.glob("checkpoints/step-*")] == [f"step-0000000{EVERY}"]
    assert not (out / "report.json").exists()
    resumed_is_whole(path, whole, out)


def test_in_graph_mode_too(path, tmp_path):
    """What a killed process leaves is what there was at some moment: here after step 3."""
    settings = ("mode=graph", "batch.accumulate=1", "monitor.evaluate_every=0")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert Trainer(config(path, whole, *settings)).run().compiled == 1
    shutil.copytree(whole, killed)
    for name in ("checkpoints/step-00000006", "checkpoints/step-00000008"):
        shutil.rmtree(killed / name)
    assert Trainer(config(path, killed, *settings)).run(resume=True).resumed == EVERY
    found = compare_runs(RunDirectory(whole), RunDirectory(killed))
    assert found.ok, found.text()


def test_the_comparison_turns_red(path, whole, tmp_path):
    other = RunDirectory(tmp_path / "run")
    Trainer(config(path, other.path, "optimizer.lr=0.02")).run()
    found = compare_runs(whole[2], other)
    assert not found.ok and any(each.startswith("step ") for each in found.differences)
    assert any(each.startswith("array weight embed.weight") for each in found.differences)
    text = whole[2].metrics.read_text("utf-8")
    other.metrics.write_text(text.replace('"step": 5', '"step": 4'), "utf-8")
    assert {"StepRecord 5", "again"} <= {word for each in compare_runs(whole[2], other).differences for word in (
        each.removeprefix("step ")[:12], each.split(" is in")[0].rpartition(" ")[2])}  # fmt: skip


def test_sigterm_finishes_the_step_and_leaves_a_checkpoint(path, whole, tmp_path):
    class Terminate(Callback):
        def on_batch(self, run, batches):
            if run.step == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    report = Trainer(config(path, tmp_path / "run"), [Terminate()]).run()
    assert signal.getsignal(signal.SIGTERM) == before
    assert (report.ok, report.exit_code, report.step) == (False, 143, 5)
    assert report.checkpoints[-1].name == "step-00000005" and "--resume" in report.headline()
    resumed_is_whole(path, whole, tmp_path / "run")


def test_weights_of_a_run_that_is_lost_are_not_saved(path, tmp_path):
    class Spoil(Callback):
        def on_step(self, run, record):
            if record.step == 5:
                weight = run.stepper.weights["blocks.0.mlp.up.weight"]
                ops.assign(weight, Tensor(np.full(weight.shape, np.nan, np.float32)))

    diary = Diary()
    report = Trainer(config(path, tmp_path / "run"), [Spoil(), diary]).run()
    assert (report.ok, report.exit_code, report.step) == (False, 1, 6) and report.fatal.name == "not finite"
    assert [each.name for each in report.checkpoints] == ["step-00000003"]  # none at step 6
    assert "step-00000003" in report.headline() and "were not saved" in report.headline()
    assert "alarm 6" in diary.events and diary.events[-1] == "end 6"
    assert json.loads((tmp_path / "run" / "report.json").read_text("utf-8"))["curve"][5][1] == "nan"


@pytest.mark.parametrize("event", ["on_step", "on_batch"])
def test_a_callback_that_fails_is_named_after_a_checkpoint(path, whole, tmp_path, event):
    def fail(self, run, *what):
        if run.step == 4:
            raise ZeroDivisionError("by hand")

    with pytest.raises(CallbackFailed) as caught:
        Trainer(config(path, tmp_path / "run"), [type("Mine", (Callback,), {event: fail})()]).run()
    assert f"Mine.{event}" in str(caught.value) and "ZeroDivisionError: by hand" in str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert (tmp_path / "run" / "checkpoints" / "step-00000004").is_dir()
    if event == "on_batch":  # the batches that it was shown are learned from afterwards
        resumed_is_whole(path, whole, tmp_path / "run")


class Two(Callback):
    def on_step(self, run, record) -> None:
        if run.step == 2:
            run.stop("enough")


def test_blocks_that_are_computed_again_train_alike_and_nothing_is_said(path, whole, tmp_path, capfd):
    again = Trainer(config(path, tmp_path / "run", "recompute=true"), [Two()], quiet=True)
    report = again.run()
    assert all(block.get_scope() == "recompute_" for block in again.model.blocks)
    assert report.curve == whole[0].curve[:2] and capfd.readouterr().err == ""


def test_a_callback_may_end_the_run(path, tmp_path):
    report = Trainer(config(path, tmp_path / "run"), [StopAt(100.0, steps=2)]).run()
    assert report.ok and report.step == 2 and "the training loss of the last 2 steps is 6." in report.headline()
    assert [each.step for each in report.held_out] == [0, 2] and report.checkpoints[-1].name == "step-00000002"


def test_a_resume_that_does_not_belong_is_refused_and_a_change_of_what_is_watched_is_not(path, whole, tmp_path):
    for setting in ("optimizer.lr = 0.02", "seed = 5"):  # the seed decides the held-out text, too
        with pytest.raises(UsageError, match=setting.replace(".", r"\.")):
            Trainer(config(path, whole[2].path, setting.replace(" ", ""))).run(resume=True)
    report = Trainer(config(path, whole[2].path, "monitor.every=3")).run(resume=True)  # nothing is left to do
    assert report.ok and report.curve == whole[0].curve and report.held_out == whole[0].held_out


def test_one_training_at_a_time_and_none_over_another(path, whole, tmp_path):
    with (
        RunDirectory(tmp_path).locked(),
        pytest.raises(UsageError, match=rf"another training[\s\S]*process {os.getpid()} on"),
    ):
        Trainer(config(path, tmp_path)).run()
    with pytest.raises(UsageError, match="--overwrite"):
        Trainer(config(path, whole[2].path)).run()
    with pytest.raises(UsageError, match="either"):
        Trainer(config(path, whole[2].path)).run(resume=True, overwrite=True)
    (tmp_path / MARK).unlink()
    (tmp_path / "thesis.txt").write_text("mine", "utf-8")
    for options in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(FileError, match=r"thesis\.txt"):
            Trainer(config(path, tmp_path)).run(**options)
    assert [each.name for each in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["config.yaml", "checkpoints"])
def test_what_is_called_like_a_run_is_not_written_over(path, tmp_path, name):
    """`--out .` in a project that has such files of its own."""
    for each in (name, "data"):
        (tmp_path / each).mkdir()
        (tmp_path / each / "mine").write_text("mine", "utf-8")
    for options in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(FileError, match=name):
            Trainer(config(path, tmp_path)).run(**options)
    shutil.rmtree(tmp_path / name)
    with pytest.raises(FileError, match="mine"):
        Trainer(config(path, tmp_path, "data.directory=''")).run(overwrite=True)
    assert (tmp_path / "data" / "mine").is_file()


def test_a_run_is_written_over_when_it_is_wanted(path, tmp_path):
    own = "data.directory=''"
    first = Trainer(config(path, tmp_path / "run", "steps=2", own)).run()
    (tmp_path / "run" / "notes.txt").write_text("mine", "utf-8")
    again = Trainer(config(path, tmp_path / "run", "steps=3", own, "data.tokens=10")).run(overwrite=True)
    assert (first.step, again.step, len(again.curve)) == (2, 3, 3)
    assert [each.name for each in again.checkpoints] == ["step-00000003"] and (tmp_path / "run" / "notes.txt").is_file()


def test_the_report_says_over_how_many_processes(whole):
    report = whole[0]
    assert "processes" not in report.text()
    spread = dataclasses.replace(report, config={**report.config, "parallel": {"dp": 2, "tp": 3}})
    assert "6: dp2,tp3" in spread.text()


def test_a_run_that_nobody_goes_on_from_leaves_no_checkpoint(path, whole, tmp_path):
    report = Trainer(config(path, tmp_path / "run"), saves=False).run()
    assert report.ok and report.checkpoints == () and not (tmp_path / "run/checkpoints").exists()
    assert report.curve == whole[0].curve


def test_a_damaged_checkpoint_is_passed_over(path, whole, tmp_path, capfd):
    with pytest.raises(Killed):
        Trainer(config(path, tmp_path / "run"), [Kill(7)]).run()
    damaged = tmp_path / "run" / "checkpoints" / "step-00000006" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    resumed_is_whole(path, whole, tmp_path / "run")
    assert "step-00000006 is passed over" in capfd.readouterr().err


def test_a_record_that_is_gone_is_missed(path, whole, tmp_path, capfd):
    with pytest.raises(Killed):
        Trainer(config(path, tmp_path / "run"), [Kill(7)]).run()
    (tmp_path / "run" / "metrics.jsonl").unlink()
    report = Trainer(config(path, tmp_path / "run")).run(resume=True)
    assert any("metrics.jsonl has 0 of the 6 steps" in warning for warning in report.warnings)
    assert "warning: metrics.jsonl has 0" in capfd.readouterr().err and report.curve[0][0] == 7


def test_the_mode_is_as_before(whole):
    assert ms.get_context("mode") == ms.PYNATIVE_MODE


@pytest.mark.parametrize(("settings", "error"), [
    (["data.tokens=25"], ConfigError),  # of 24 positions
    (["precision.level=O1", "precision.dtype=bfloat16"], BackendError),
])  # fmt: skip
def test_what_cannot_be_stops_before_anything_is_made(path, tmp_path, settings, error):
    with pytest.raises(error):
        Trainer(config(path, tmp_path / "run", "data.directory=''", *settings)).run()
    assert [each.name for each in (tmp_path / "run").iterdir()] == [MARK]


@pytest.mark.parametrize("words", [["train"], ["train", "none.yaml"], ["prepare", "none.yaml"], ["prepare"],
                                   ["train", "CONFIG", "--set", "optimizer.lrr=1"], ["train", "CONFIG", "--steps", "0"],
                                   ["train", "--example", "nobody"]])  # fmt: skip
def test_an_input_that_cannot_be_used_exits_2(path, words, capfd):
    assert cli.main([str(path) if word == "CONFIG" else word for word in words]) == 2
    err = capfd.readouterr().err
    assert err.startswith("error: ") and "Traceback" not in err


def test_the_commands_answer_in_json(path, tmp_path, capfd):
    out = tmp_path / "run it: 😀"
    assert cli.main(["prepare", str(path), "--out", str(out), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["ok"] is True
    words = ["train", str(path), "--out", str(out), "--steps", "2", "--set", "checkpoints.every=0", "--json"]
    assert cli.main(words) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["step"], answer["steps"], answer["config"]["checkpoints"]["every"]) == (2, 2, 0)
    assert "'" in answer["command"]  # for the space
    assert cli.main(["train", "--example", "tiny-gpt2"]) == 0
    assert "optimizer:" in capfd.readouterr().out


def test_a_report_of_a_signal_is_told_apart(whole):
    interrupted = dataclasses.replace(whole[0], signal=signal.SIGINT)
    assert interrupted.exit_code == 130 and not interrupted.ok and "after step 8 of 8; go on" in interrupted.headline()
    early = dataclasses.replace(interrupted, step=0, curve=())
    assert "before its first step, nothing was saved; begin: mindport train" in early.headline()
    assert dataclasses.replace(whole[0], finite=False).exit_code == 1
    assert not dataclasses.replace(whole[0], curve=()).ok
    for mfu, words in ((0.4, "40%"), (2.05, "205%; no peak, then")):
        told = dataclasses.replace(whole[0], pace=dataclasses.replace(whole[0].pace, mfu=mfu))
        (share,) = [value for name, value in told.tables()[0].rows if "(MFU)" in name]
        assert share.startswith(words) and ("busy" in share) == (mfu > 1)
    still = dataclasses.replace(whole[0], skipped=len(whole[0].curve))
    assert not still.ok and "none of which moved the weights" in still.headline()
