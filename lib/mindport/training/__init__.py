"""Step 05: the pieces of a training step, the step as one cell, and what surrounds it.

The names below are looked up when they are asked for: configuration, data and checkpoints need no framework, and a
process that only reads them starts without one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindport.training.clip import ClipNorm
    from mindport.training.optimizer import AdamW, is_matrix
    from mindport.training.schedule import Constant, Cosine, Linear, Schedule
    from mindport.training.step import TrainStep

__all__ = ["AdamW", "ClipNorm", "Constant", "Cosine", "Linear", "Schedule", "TrainStep", "is_matrix"]

_MODULES = {
    "AdamW": "optimizer", "ClipNorm": "clip", "Constant": "schedule", "Cosine": "schedule", "Linear": "schedule",
    "Schedule": "schedule", "TrainStep": "step", "is_matrix": "optimizer",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
