"""What one step did: the line that is logged, watched, and given to callbacks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StepRecord:
    """One step.

    Attributes:
        step: counted from 1: how often the weights were to move.
        loss: mean over the tokens that count, nats, before the step.
        norm: of all gradients, before clipping, the loss scale divided out; not finite after an overflow.
        lr: the rate of this step.
        loss_scale: what the loss was multiplied by; 1 without float16.
        moved: False where an overflow made the optimizer skip the step.
        counted: tokens that the loss is a mean of, over all ranks.
        tokens: tokens that went through the model, padding included, over all ranks.
        seconds: wall time of the step, its data included.
        compiled: graphs that this process compiled during the step.
    """

    step: int
    loss: float
    norm: float
    lr: float
    loss_scale: float = 1.0
    moved: bool = True
    counted: int = 0
    tokens: int = 0
    seconds: float = 0.0
    compiled: int = 0
