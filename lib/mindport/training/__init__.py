"""Step 05: the pieces of a training step, and the step as one cell."""

from mindport.training.accumulate import AccumulatedStep
from mindport.training.clip import ClipNorm
from mindport.training.loss_scale import LossScale
from mindport.training.optimizer import AdamW, is_matrix
from mindport.training.schedule import Constant, Cosine, Linear, Schedule
from mindport.training.step import TrainStep

__all__ = [
    "AccumulatedStep",
    "AdamW",
    "ClipNorm",
    "Constant",
    "Cosine",
    "Linear",
    "LossScale",
    "Schedule",
    "TrainStep",
    "is_matrix",
]
