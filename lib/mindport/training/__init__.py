"""Step 05: the pieces of a training step, and the step as one cell.

Names are imported when they are asked for: the data, the configuration and the records need no framework, and the
processes that read them beside PyTorch must not have MindSpore.
"""

from __future__ import annotations

import importlib

_PLACES = {
    "AdamW": "optimizer", "ClipNorm": "clip", "Constant": "schedule", "Cosine": "schedule", "Linear": "schedule",
    "Schedule": "schedule", "TrainStep": "step", "is_matrix": "optimizer",
}  # fmt: skip

__all__ = ["AdamW", "ClipNorm", "Constant", "Cosine", "Linear", "Schedule", "TrainStep", "is_matrix"]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
