"""The test of kills: its moments, and what it refuses. That a killed run is the same, `test_trainer` shows."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mindport.errors import BackendError, FileError, UsageError
from mindport.processes import environment
from mindport.training.kill_test import LayoutReport, Resumed, kill_test, resume_under, victims
from mindport.training.kill_test.layouts import losses_apart
from mindport.training.kill_test.moments import is_writing, last_step, moments, newest, writer
from mindport.training.monitor import JsonLines
from mindport.training.run_directory import RunDirectory
from tests.training.runs import write


def test_the_moments_of_kills_follow_from_the_seed():
    named = [[moment.aimed for moment in moments(20, 60, 5.0, 0.1, random.Random(seed))] for seed in (0, 0, 1)]
    assert named[0] == named[1] != named[2] and len(named[0]) == 20
    kinds = [name.split()[0] for name in named[0]]
    assert [kinds.count(kind) for kind in ("the", "step", "a")] == [6, 10, 4]  # the text and the start; steps; writes
    assert len(moments(1, 60, 5.0, 0.1, random.Random(0))) == 1


def test_a_moment_is_seen_in_the_directory(tmp_path):
    run = RunDirectory(tmp_path)
    assert (last_step(run), newest(run), is_writing(run)) == (0, 0, False)
    lines = [json.dumps({"event": event, "step": step}) for event, step in (("step", 3), ("pace", 9), ("step", 4))]
    run.metrics.write_text("\n".join(lines) + '\n{"event": "step", "st', "utf-8")
    for name in ("step-00000003", "step-00000006", ".step-00000009.x.part", ".step-00000001.x.removed"):
        (run.checkpoints / name).mkdir(parents=True)
    assert (last_step(run), newest(run), is_writing(run)) == (4, 6, True)
    stepping, writing, starting = (
        next(m for m in moments(20, 8, 99.0, 0.3, random.Random(0)) if m.aimed.startswith(kind))
        for kind in ("step", "a write", "the start")
    )
    assert not starting.has_come(run, 0.1, True) and starting.has_come(run, 99.0, False)
    assert not writing.has_come(run, 9.0, False) and writing.has_come(run, 9.0, True)
    assert not stepping.has_come(run, 9.0, False) and not stepping.has_come(
        run, 9.0, True
    )  # step 4 is of an earlier one
    with run.metrics.open("a", encoding="utf-8") as file:
        file.write('\n{"event": "step", "step": 5}\n')
    assert not stepping.has_come(run, 9.0, True) and stepping.has_come(run, 9.5, True)
    assert starting.has_come(run, 0.1, True)  # the first step is the end of the start
    inode = writer(run)
    JsonLines(run.metrics).close()  # as each process begins
    assert writer(run) != inode and writer(RunDirectory(tmp_path / "x")) == 0


def test_a_kill_test_that_could_show_nothing_is_refused(tmp_path):
    path = write(tmp_path / "t")
    with pytest.raises(UsageError, match="nothing could be resumed"):
        kill_test(path, tmp_path / "kills", settings=["checkpoints.every=0"])
    (tmp_path / "kills" / "killed" / "checkpoints").mkdir(parents=True)
    with pytest.raises(FileError, match="checkpoints"):
        kill_test(path, tmp_path / "kills")


RANK = "import os, time; os.fork(); print(flush=True); time.sleep(60)"  # as a rank: one that computes, one that waits


@contextlib.contextmanager
def job(token: str, **variables: str) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen([sys.executable, "-c", RANK], stdout=subprocess.PIPE,
                               env=environment(**{victims.TOKEN: token, **variables}))  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() + process.stdout.readline() == b"\n\n"
    yield process
    process.kill()
    process.communicate()


def test_the_ranks_of_a_training_are_found_and_nothing_is_left_of_it(tmp_path, monkeypatch):
    token = secrets.token_hex(8)
    with (
        job(token, MS_ROLE="MS_WORKER", RANK_ID="0") as first, job(token, MS_ROLE="MS_WORKER", RANK_ID="1") as second,
        job("other", MS_ROLE="MS_WORKER", RANK_ID="2"), job(token, MS_ROLE="MS_SCHED"),
    ):  # fmt: skip
        found = victims.ranks(token)
        assert set(found) == {0, 1} and not {first.pid, second.pid} & set(found.values())
        os.kill(found[1], signal.SIGKILL)
        second.kill()
        second.wait()
        assert set(victims.ranks(token)) == {0}
        monkeypatch.setattr(victims, "PATIENCE", 0.2)
        with pytest.raises(BackendError, match="outlive the training"):
            victims.wait_for_the_end(token, tmp_path)
        first.wait(10)  # which ended them
        victims.wait_for_the_end(token, tmp_path)
        assert set(victims.ranks("other")) == {2}
        victims.end("other")


def test_a_resume_under_another_layout_is_held_to_its_limit():
    good = Resumed("tp2", "dp2", True, 4, 8, 4e-7, 1e-5, False)
    same = dataclasses.replace(good, reads="tp2", loss=0.0, is_equal=True)
    report = LayoutReport((good, same))
    assert report.ok and "2 of 2" in report.headline() and "4.0e-07" in report.headline()
    for wrong in (
        dataclasses.replace(good, loss=2e-6), dataclasses.replace(good, loss=float("nan")),
        dataclasses.replace(good, steps=0), dataclasses.replace(same, is_equal=False),
    ):  # fmt: skip
        assert not LayoutReport((same, wrong)).ok
    assert not LayoutReport(()).ok


def test_a_step_that_is_missing_or_no_number_is_a_difference():
    losses = {1: 6.0, 2: 5.5, 3: 5.0, 4: 4.5}
    assert losses_apart(losses, {**losses, 3: 5.25}, 2) == (2, 0.25)
    assert losses_apart(losses, {**losses, 1: 9.0, 2: 9.0}, 2) == (2, 0.0)  # it is resumed after step 2
    for other in ({**losses, 4: math.nan}, {**losses, 3: math.nan}, {n: losses[n] for n in (1, 2, 3)}):
        assert math.isnan(losses_apart(losses, other, 2)[1])


def test_what_is_no_pair_of_layouts_is_refused(tmp_path):
    for pair in ("tp2", "tp2:dp2:dp1", "tp2:x"):
        with pytest.raises(UsageError, match=r"not (two layouts|a layout)"):
            resume_under(write(tmp_path / pair), tmp_path, [pair])
