"""The training of notebook 06: short, since it runs under several layouts, and with dropout, which must not matter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mindport.training.config import CheckpointConfig, MonitorConfig, TrainConfig
from mindport.training.lessons import lesson_config as of_notebook_05

STEPS = {"smoke": 20, "small": 4, "full": 4}
LR, DROPOUT = 1e-3, 0.1


def lesson_config(directory: Path | str, size: str, out: Path | str, steps: int = 0) -> TrainConfig:
    """A training that fits the time: from random weights at size smoke, else a few steps of a fine-tuning.

    Args:
        directory: a Hugging Face directory.
        size: smoke, small or full.
        out: of the run of the notebooks; the trainings get a folder in it.
        steps: how many; 0: as the size has it.
    """
    steps = steps or STEPS[size]
    config = of_notebook_05(directory, size, out, steps)
    lr = LR if size == "smoke" else config.optimizer.lr
    return replace(
        config, out=str(Path(out) / "parallel"), dropout=DROPOUT, optimizer=replace(config.optimizer, lr=lr),
        checkpoints=CheckpointConfig(every=max(1, steps // 2), keep=2, best=False),
        monitor=MonitorConfig(every=max(1, steps // 4), evaluate_every=0, evaluate_rows=8, tensorboard=False),
    )  # fmt: skip
