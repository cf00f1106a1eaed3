"""Other formulations of a piece of the training step, the ones that code translated line by line has.

Each function takes the loss with its model, and replaces cells in it; parameters stay the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from mindport.model import NextTokenLoss
from mindport.model.gpt import Linear


def dense(loss: NextTokenLoss) -> None:
    """`nn.Dense` for every linear map, the tied head apart, which has no weight of its own."""
    names = [(parameter, parameter.name) for parameter in loss.model.get_parameters()]
    for _, parent in list(loss.model.cells_and_names()):
        for name, cell in list(parent.name_cells().items()):
            if isinstance(cell, Linear) and cell is not loss.model.head:
                setattr(parent, name, as_dense(cell))
    for parameter, name in names:  # a cell renames what is put into it
        parameter.name = name


def as_dense(linear: Linear) -> nn.Dense:
    """The same map; it holds the same parameters."""
    rows, columns = linear.weight.shape
    made = nn.Dense(columns, rows, has_bias=linear.has_bias)
    made.weight = linear.weight
    if linear.has_bias:
        made.bias = linear.bias
    return made


def broadcast_mask(loss: NextTokenLoss) -> None:
    """Attention as it is written in PyTorch: matmul, add a (1, 1, T, T) mask, softmax, matmul."""
    config = loss.model.config
    for block in loss.model.blocks:
        block.attn.attend = BroadcastMask(config.head_dim**-0.5, config.max_position_embeddings)


def ops_cross_entropy(loss: NextTokenLoss) -> None:
    """`ops.cross_entropy`."""
    loss.loss = OpsCrossEntropy()


VARIANTS: dict[str, Callable[[NextTokenLoss], None]] = {
    "nn.Dense": dense,
    "broadcast mask": broadcast_mask,
    "ops.cross_entropy": ops_cross_entropy,
}


class BroadcastMask(nn.Cell):
    """(B, T, H, D), twice (B, T, K, D) → (B, T, H, D)."""

    LONGEST = 1024  # of the workloads it is made for

    def __init__(self, scale: float, context: int) -> None:
        super().__init__()
        side = min(context, self.LONGEST)
        hidden = np.triu(np.full((side, side), np.finfo(np.float32).min), 1)
        self.scale, self.mask = scale, Tensor(hidden[None, None])
        self.matmul, self.softmax, self.repeat = ops.matmul, ops.softmax, ops.repeat_interleave

    def construct(self, q: Tensor, k: Tensor, v: Tensor, offset: Any = None) -> Tensor:
        q, k, v = q.transpose((0, 2, 1, 3)), k.transpose((0, 2, 1, 3)), v.transpose((0, 2, 1, 3))
        group, tokens = q.shape[1] // k.shape[1], q.shape[2]
        if group > 1:
            k, v = self.repeat(k, group, 1), self.repeat(v, group, 1)
        scores = self.matmul(q, k.transpose((0, 1, 3, 2))) * self.scale  # (B, H, T, T)
        scores = scores + self.mask[:, :, :tokens, :tokens]
        return self.matmul(self.softmax(scores, -1), v).transpose((0, 2, 1, 3))


class OpsCrossEntropy(nn.Cell):
    """(N, V), int32 (N,) → ()."""

    def __init__(self) -> None:
        super().__init__()
        self.loss, self.float32 = ops.cross_entropy, ms.float32

    def construct(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.loss(logits.astype(self.float32), labels)
