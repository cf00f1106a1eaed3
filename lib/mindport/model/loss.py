"""The training objective: predict the next token."""

from __future__ import annotations

from mindspore import Tensor, nn, ops

from mindport.model import kernels
from mindport.model.collectives import ShareOfLoss
from mindport.model.gpt import GPT
from mindport.model.kernels.cross_entropy import IGNORED


class NextTokenLoss(nn.Cell):
    """Mean cross entropy of each token given those before it: (ids (B, T), labels (B, T)) → scalar.

    Labels are the ids themselves, −100 where a token does not count; the shift by one happens here, as in the
    reference's `labels` argument. NaN when no token counts, as when T is 1.
    """

    def __init__(self, model: GPT) -> None:
        super().__init__(auto_prefix=False)  # parameters keep the hub's names
        self.model = model
        self.rows, self.shares, self.ignored = model.rows, model.shares, IGNORED
        self.loss = ShareOfLoss(model.ranks, model.rows) if model.shares else kernels.cross_entropy()
        self.concat, self.full_like = ops.Concat(1), ops.full_like

    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        logits = self.model.own(ids) if self.shares else self.model(ids)
        logits = logits.reshape((-1, self.rows))  # (B·T, V), or this rank's part of V
        # The labels move, not the logits: a slice of those, and its gradient, would copy B·T·V numbers
        following = self.concat((labels[:, 1:], self.full_like(labels[:, :1], self.ignored)))  # (B, T)
        return self.loss(logits, following.reshape((-1,)))
