"""The training objective: predict the next token."""

from __future__ import annotations

from mindspore import Tensor, nn

from mindport.model import kernels
from mindport.model.gpt import GPT


class NextTokenLoss(nn.Cell):
    """Mean cross entropy of each token given those before it: (ids (B, T), labels (B, T)) → scalar.

    Labels are the ids themselves, −100 where a token does not count; the shift by one happens here, as in the
    reference's `labels` argument.
    """

    def __init__(self, model: GPT) -> None:
        super().__init__(auto_prefix=False)  # parameters keep the hub's names
        self.model = model
        self.rows = model.config.vocab_rows
        self.loss = kernels.cross_entropy()

    def construct(self, ids: Tensor, labels: Tensor) -> Tensor:
        logits = self.model(ids)[:, :-1]  # (B, T-1, V)
        return self.loss(logits.reshape((-1, self.rows)), labels[:, 1:].reshape((-1,)))
