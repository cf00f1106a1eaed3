"""Whatever the moment at which a process ends: the newest whole checkpoint is there, and the next one tidies up."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mindport.processes import environment
from mindport.training.checkpoint import Checkpoints, read_checkpoint

ROOT = Path(__file__).parents[3]
KILLS = 8


def saver(how: str, root: Path, source: Path) -> subprocess.Popen[str]:
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(ROOT)
    words = [sys.executable, "-m", "tests.training.checkpoint.saver", how, str(root), str(source)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def test_killed_again_and_again_while_it_saves(source: Path, tmp_path: Path) -> None:
    draw, before, root = random.Random(6), 0, tmp_path / "checkpoints"
    for number in range(KILLS):
        process = saver("kill", root, source)
        assert process.stdout is not None and process.stdout.readline() == "open\n", process.communicate()[1]
        first = process.stdout.readline().split() if number % 2 else []  # on a slow machine none may be done in time
        time.sleep(draw.uniform(0.02, 0.5))
        process.kill()
        said = [*first, *process.communicate()[0].split()]
        with Checkpoints(root, source, keep=1) as checkpoints:  # sweeps
            newest, names = checkpoints.newest(), sorted(path.name for path in root.iterdir())
        step = newest.step if newest else 0
        assert step >= max([before, *map(int, said)]), (step, before, said)
        assert not [name for name in names if name.startswith(".")]
        before = step
    assert before >= KILLS // 2  # it did go on


@pytest.mark.parametrize("how", ["events", "shards"])
def test_killed_before_every_change_of_the_disk(source: Path, tmp_path: Path, how: str) -> None:
    process = saver(how, tmp_path / "checkpoints", source)
    said, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    assert int(said) > 40  # each of them the first that did not happen


def test_a_writer_that_seals_late_does_not_pass(source: Path, tmp_path: Path) -> None:
    _, error = saver("late", tmp_path / "checkpoints", source).communicate(timeout=300)
    assert "has no training.json" in error and "AssertionError" in error, error


@pytest.mark.parametrize(("how", "code"), [("exit", 3), ("interrupt", -2)])
def test_the_end_of_the_process_waits_for_the_thread(source: Path, tmp_path: Path, how: str, code: int) -> None:
    process = saver(how, tmp_path / "checkpoints", source)
    _, error = process.communicate(timeout=300)
    assert process.returncode == code, error
    assert read_checkpoint(tmp_path / "checkpoints/step-00000001").state["adam.m"].size == 1 << 22


def test_a_full_disk_that_nobody_waited_for_is_said_at_the_end(source: Path, tmp_path: Path) -> None:
    process = saver("full", tmp_path / "checkpoints", source)
    _, error = process.communicate(timeout=300)
    assert "a checkpoint was not written: writing failed, nothing was kept" in error and "File too large" in error
    assert list((tmp_path / "checkpoints").iterdir()) == []
