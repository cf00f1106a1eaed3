"""The first training run of a new model: a few steps on one batch, in PyNative mode, before anything is tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mindport.errors import UsageError
from mindport.results import Property, Result, verdict
from mindport.tables import Table

if TYPE_CHECKING:
    from mindspore import Tensor

    from mindport.config import ModelConfig
    from mindport.model import GPT

BATCH, TOKENS = 2, 32


@dataclass(frozen=True)
class SmokeRun(Result):
    """What a few steps did.

    Attributes:
        losses, norms, rates: of each step; norms are of all gradients, before clipping.
        without: trainable parameters whose gradient was zero throughout in the first step.
        loss_of_nothing: ln V.
        device: it ran on.
    """

    losses: tuple[float, ...]
    norms: tuple[float, ...]
    rates: tuple[float, ...]
    without: tuple[str, ...]
    loss_of_nothing: float
    device: str

    @property
    def ok(self) -> bool:
        """Finite throughout, lower at the end than at the start, and every parameter takes part."""
        finite = all(map(math.isfinite, (*self.losses, *self.norms)))
        return finite and self.losses[-1] < self.losses[0] and not self.without

    def headline(self) -> str:
        fell = f"the loss went from {self.losses[0]:.4f} to {self.losses[-1]:.4f} in {len(self.losses)} steps"
        silent = f"; no gradient reaches {', '.join(self.without)}" if self.without else ""
        return f"{fell} (ln V is {self.loss_of_nothing:.4f}){silent}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(i, f"{loss:.4f}", norm, rate) for i, (loss, norm, rate) in
                enumerate(zip(self.losses, self.norms, self.rates, strict=True))]  # fmt: skip
        return (Table("step by step", ("step", "loss", "norm of the gradients", "learning rate"), rows),)

    def properties(self) -> tuple[Property, ...]:
        how = f"{len(self.losses)} steps of AdamW on one batch of random tokens, PyNative"
        return (verdict("the loss falls in a few steps", self.ok, how, self.headline(), self.device),)


def smoke_run(model: GPT, *, steps: int = 8, rate: float = 1e-3, seed: int = 0) -> SmokeRun:
    """Train a model on one batch of random tokens; it is changed by that.

    It should learn the batch by heart. Whether it is fast, or learns anything useful, is another question.

    Args:
        model: whose weights are float32.
        steps: how many; the first of a warm-up of one moves nothing.
        rate: the learning rate.
        seed: of the tokens.

    Raises:
        UsageError: fewer than two steps.
    """
    import mindspore as ms

    from mindport.model import NextTokenLoss
    from mindport.training import AdamW, Constant, TrainStep

    if steps < 2:
        raise UsageError("one step cannot show that the loss falls", got=steps, expected="2 or more")
    weights = model.trainable_params()
    loss = NextTokenLoss(model)
    step = TrainStep(model, loss, AdamW(weights), Constant(rate), max_norm=1.0)
    batch = sample_batch(model.config, seed)
    without = _without_gradient(loss, weights, batch)
    rows = [[float(value) for value in step(*batch)] for _ in range(steps)]
    losses, norms, rates = (tuple(column) for column in zip(*rows, strict=True))
    return SmokeRun(losses, norms, rates, without, math.log(model.config.vocab_rows),
                    ms.get_context("device_target"))  # fmt: skip


def sample_batch(config: ModelConfig, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random tokens as ids and labels, int32 (B, T)."""
    import mindspore as ms

    tokens = min(TOKENS, config.max_position_embeddings)
    ids = np.random.default_rng(seed).integers(0, config.vocab_size, (BATCH, tokens))
    return ms.Tensor(ids, ms.int32), ms.Tensor(ids, ms.int32)


def _without_gradient(loss: object, weights: list, batch: tuple) -> tuple[str, ...]:  # type: ignore[type-arg]
    import mindspore as ms

    gradients = ms.grad(loss, None, weights=weights)(*batch)
    return tuple(w.name for w, g in zip(weights, gradients, strict=True) if not g.asnumpy().any())
