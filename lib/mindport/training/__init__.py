"""Step 05: the pieces of a training step, the step as one cell, and what surrounds it.

optimizer, schedule, clip, loss_scale   the pieces
step, accumulate     a step on one batch, and on several whose gradients are added up
reduce, collective   gradients added up over replicas; what else ranks tell each other
stepper              the same as the configuration wants it: `build` makes the pieces, `compile_counter` watches the
                     graphs, `state` puts values back, a `step_record` is what comes out
config/              the configuration, a plain file
data/, text          text to batches; that of a training
start, estimate      the model that it begins with; what it will take
checkpoint/          what survives the end of the process; of several it is `gathered`, after a check of `consistency`
monitor/             what is measured and written, and what rings
trainer              all of it: put together by `parts`, in a `run_directory`, ended by an `interrupt`, told to
                     `callbacks`, answered by a `train_report`
example              a configuration to begin with
kill_test/           killed again and again, and still the same run
lessons/             what notebook 05 shows besides

The names below are looked up when they are asked for: configuration, data and checkpoints need no framework, and a
process that only reads them starts without one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindport.training.accumulate import AccumulatedStep
    from mindport.training.callbacks import Callback, StopAt
    from mindport.training.checkpoint import read_checkpoint
    from mindport.training.clip import ClipNorm
    from mindport.training.config import TrainConfig, read_config, text_of, write_config
    from mindport.training.data import Batch
    from mindport.training.loss_scale import LossScale
    from mindport.training.optimizer import AdamW, is_matrix
    from mindport.training.schedule import Constant, Cosine, Linear, Schedule
    from mindport.training.step import TrainStep
    from mindport.training.stepper import Stepper
    from mindport.training.text import open_text, prepare_text
    from mindport.training.train_report import TrainReport
    from mindport.training.trainer import Trainer

__all__ = [
    "AccumulatedStep", "AdamW", "Batch", "Callback", "ClipNorm", "Constant", "Cosine", "Linear", "LossScale",
    "Schedule", "Stepper", "StopAt", "TrainConfig", "TrainReport", "TrainStep", "Trainer", "is_matrix", "open_text",
    "prepare_text", "read_checkpoint", "read_config", "text_of", "write_config",
]  # fmt: skip

_MODULES = {
    "AccumulatedStep": "accumulate", "AdamW": "optimizer", "Batch": "data", "Callback": "callbacks", "ClipNorm": "clip",
    "Constant": "schedule", "Cosine": "schedule", "Linear": "schedule", "LossScale": "loss_scale",
    "Schedule": "schedule", "Stepper": "stepper", "StopAt": "callbacks", "TrainConfig": "config",
    "TrainReport": "train_report", "TrainStep": "step", "Trainer": "trainer", "is_matrix": "optimizer",
    "open_text": "text", "prepare_text": "text", "read_checkpoint": "checkpoint", "read_config": "config",
    "text_of": "config", "write_config": "config",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
