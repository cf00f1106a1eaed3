"""Trainings that do not end by themselves: one is killed, one is poisoned. Both are of the smallest bundled model."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import mindspore as ms
from mindspore import Tensor, ops

from mindport import sources
from mindport.training.callbacks import Callback
from mindport.training.config import BatchConfig, CheckpointConfig, TrainConfig, write_config
from mindport.training.kill_test import KillReport, kill_test
from mindport.training.lessons.laboratory import lesson_config
from mindport.training.train_report import TrainReport
from mindport.training.trainer import Trainer

SMALLEST = "smoke"
STEPS, EVERY, DROPOUT = 16, 4, 0.1
KILLS = 2
POISONED = 10  # the step before which the weight is spoiled


def kill_and_resume(out: Path, times: int = KILLS) -> KillReport:
    """Train with dropout, killed and resumed; and once more in one piece.

    Args:
        out: a folder, which is made anew.
        times: kills.
    """
    shutil.rmtree(out, ignore_errors=True)
    path = write_config(_short(out / "run"), out / "train.yaml")
    return kill_test(path, out, times=times)


def poisoned_run(out: Path) -> TrainReport:
    """Train; before step 10 a weight becomes infinite, as by a broken node.

    Args:
        out: of the run, which is made anew.
    """
    return Trainer(_short(out), callbacks=[_Poison()], quiet=True).run(overwrite=True)


class _Poison(Callback):
    def on_batch(self, run: Trainer, batches: object) -> None:
        if run.step + 1 == POISONED:
            weight = run.stepper.optimizer.weights[0]
            ops.assign(weight, Tensor(float("inf"), ms.float32) * ops.ones_like(weight))


def flip_a_bit(path: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _short(out: Path) -> TrainConfig:
    config = lesson_config(sources.resolve(sources.BY_SIZE[SMALLEST]), SMALLEST, out, STEPS)
    return replace(
        config, out=str(out), dropout=DROPOUT, batch=BatchConfig(rows=4, accumulate=1),
        checkpoints=CheckpointConfig(every=EVERY, keep=2, best=False),
    )  # fmt: skip
