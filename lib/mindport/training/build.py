"""The pieces of a training step as the configuration wants them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from mindspore import Parameter

from mindport.errors import UsageError, some
from mindport.training.config import OptimizerConfig, PrecisionConfig, TrainConfig
from mindport.training.loss_scale import LossScale
from mindport.training.optimizer import AdamW, decaying
from mindport.training.schedule import Constant, Cosine, Linear, Schedule


def optimizer(weights: Sequence[Parameter], config: OptimizerConfig) -> AdamW:
    """AdamW over these weights.

    Raises:
        UsageError: a pattern of `no_decay` matches none of them, or the numbers make no optimizer.
    """
    names = [weight.name for weight in weights]
    idle = [pattern for pattern in config.no_decay if not any(fnmatchcase(name, pattern) for name in names)]
    if idle:
        raise UsageError("no weight has such a name", where="optimizer.no_decay", got=some(idle),
                         expected=f"patterns of names such as {some(names)}")  # fmt: skip
    return AdamW(weights, betas=config.betas, eps=config.eps, weight_decay=config.weight_decay,
                 decays=decaying(config.no_decay))  # fmt: skip


def schedule(config: TrainConfig) -> Schedule:
    """The learning rate's course over the run.

    Raises:
        UsageError: there is no such shape, or the numbers make no schedule.
    """
    lr, shape, warmup = config.optimizer.lr, config.schedule.shape, config.schedule.warmup
    if shape == "constant":
        return Constant(lr, warmup=warmup)
    shapes: dict[str, type[Linear]] = {"linear": Linear, "cosine": Cosine}
    if shape not in shapes:
        raise UsageError("there is no such schedule", where="schedule.shape", got=shape,
                         expected=", ".join(("constant", *shapes)))  # fmt: skip
    return shapes[shape](lr, total=config.steps, warmup=warmup)


def loss_scale(config: PrecisionConfig) -> LossScale | None:
    """The loss scale that float16 needs; none elsewhere: float32 and bfloat16 have the range.

    Raises:
        UsageError: numbers that make no loss scale.
    """
    if config.level == "O0" or config.dtype != "float16":
        return None
    return LossScale(config.loss_scale, config.window)
