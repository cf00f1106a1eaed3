"""Step 05: the pieces of a training step, the step as one cell, and what surrounds it.

The names below are looked up when they are asked for: configuration, data and checkpoints need no framework, and a
process that only reads them starts without one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindport.training.accumulate import AccumulatedStep
    from mindport.training.clip import ClipNorm
    from mindport.training.loss_scale import LossScale
    from mindport.training.optimizer import AdamW, is_matrix
    from mindport.training.schedule import Constant, Cosine, Linear, Schedule
    from mindport.training.step import TrainStep
    from mindport.training.stepper import Stepper

__all__ = [
    "AccumulatedStep", "AdamW", "ClipNorm", "Constant", "Cosine", "Linear", "LossScale", "Schedule", "Stepper",
    "TrainStep", "is_matrix",
]  # fmt: skip

_MODULES = {
    "AccumulatedStep": "accumulate", "AdamW": "optimizer", "ClipNorm": "clip", "Constant": "schedule",
    "Cosine": "schedule", "Linear": "schedule", "LossScale": "loss_scale", "Schedule": "schedule",
    "Stepper": "stepper", "TrainStep": "step", "is_matrix": "optimizer",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
