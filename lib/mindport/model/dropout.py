"""The dropouts of a model, and the counter that their masks come from."""

from __future__ import annotations

from dataclasses import replace

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from mindport.config.model_config import ModelConfig
from mindport.model import kernels
from mindport.model.kernels.drop import Place, check_probability
from mindport.ranks import ALONE, Ranks


class Counter(nn.Cell):
    """The random numbers of a model, all of them: a seed, and how many passes there have been.

    Called, it counts one: before each forward pass of a training, never between that and its backward pass. Its
    `state`, int32 (2,), is no parameter of the model: no weights are saved with it, no optimizer sees it. A checkpoint
    keeps it by itself and restores it by `ops.assign`; from there on every mask is the same again.

    Args:
        seed: any whole number; the last 32 bits count.
        ranks: which rows of a batch, and which of its heads, are this process's. All take one seed: each then has its
            part of the masks that one process would have.
    """

    def __init__(self, seed: int = 0, ranks: Ranks = ALONE) -> None:
        super().__init__()
        state = Tensor(np.array([seed & 0xFFFFFFFF, 0], np.uint32).view(np.int32))
        self.__dict__["state"] = Parameter(state, name="random.state", requires_grad=False)
        self.one, self.assign = Tensor([0, 1], ms.int32), ops.Assign()
        self.places, self.ranks = 0, ranks

    def place(self, of_heads: bool = False) -> Place:
        """Numbers for one more dropout; those made in the same order get the same ones.

        Args:
            of_heads: whether each rank has some of the heads, and not all that there is of a sequence.
        """
        self.places += 1
        tp, tp_rank = (self.ranks.tp, self.ranks.tp_rank) if of_heads else (1, 0)
        return Place(self.state, self.places - 1, self.ranks.dp_rank, tp, tp_rank)

    def construct(self) -> Tensor:
        return self.assign(self.state, self.state + self.one)


class Dropout(nn.Cell):
    """0 with probability p, else x / (1 − p), in training; x itself otherwise.

    Args:
        p: the probability.
        counter: of the model; None where p is 0.
    """

    def __init__(self, p: float, counter: Counter | None) -> None:
        super().__init__()
        self.p, self.drops = p, p > 0
        if self.drops:
            self.drop = kernels.dropout(p=p, place=None if counter is None else counter.place())

    def construct(self, x: Tensor) -> Tensor:
        return self.drop(x) if self.drops and self.training else x


def drops(config: ModelConfig) -> bool:
    """Whether a training of this model drops anything."""
    return max(config.embd_pdrop, config.attn_pdrop, config.resid_pdrop) > 0


def with_dropout(config: ModelConfig, p: float | None) -> ModelConfig:
    """The same model with one probability in place of its own three; None leaves them.

    Raises:
        UsageError: it is not from 0 to below 1.
    """
    if p is None:
        return config
    check_probability(p)
    return replace(config, embd_pdrop=p, attn_pdrop=p, resid_pdrop=p)
