"""Step 05: the pieces of a training step, and the step as one cell."""

from mindport.training.clip import ClipNorm
from mindport.training.optimizer import AdamW, is_matrix
from mindport.training.schedule import Constant, Cosine, Linear, Schedule
from mindport.training.step import TrainStep

__all__ = ["AdamW", "ClipNorm", "Constant", "Cosine", "Linear", "Schedule", "TrainStep", "is_matrix"]
