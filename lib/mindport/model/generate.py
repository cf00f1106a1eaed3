"""Greedy decoding without a cache, as the check of a converted model.

The ids are padded to their final length at once, so Graph mode compiles one graph for all steps. What stands after
the last token does not matter: no query sees a later key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mindspore import Tensor

from mindport.errors import UsageError
from mindport.model.gpt import GPT


def greedy(model: GPT, ids: Sequence[int], steps: int, length: int = 0) -> list[int]:
    """The `steps` most likely tokens after `ids`, one by one; ends of text are not acted upon.

    Args:
        model: dropout is off from here on.
        ids: what is continued.
        steps: tokens to add.
        length: of the padded ids, where that of these is less: one graph for prompts of any length.

    Raises:
        UsageError: no ids, an id outside the vocabulary, or more tokens than the model has positions.
    """
    _check(model, ids, steps)
    padded = np.zeros((1, max(length, len(ids) + steps)), np.int32)
    padded[0, : len(ids)] = ids
    model.set_train(False)
    for end in range(len(ids), len(ids) + steps):
        logits = model(Tensor(padded)).asnumpy()  # (1, T, V)
        padded[0, end] = logits[0, end - 1].argmax()
    return padded[0, len(ids) : len(ids) + steps].tolist()


def _check(model: GPT, ids: Sequence[int], steps: int) -> None:
    vocab, context = model.config.vocab_size, model.config.max_position_embeddings
    if len(ids) == 0:
        raise UsageError("there is nothing to continue", got="no ids", expected="at least one token")
    if not 0 <= min(ids) <= max(ids) < vocab:
        raise UsageError("an id is not in the vocabulary", got=f"{min(ids)} … {max(ids)}", expected=f"0 … {vocab - 1}")
    if len(ids) + steps > context:
        raise UsageError("the text would be longer than the model's positions", got=f"{len(ids)} + {steps} tokens",
                         expected=f"at most {context}", do="shorten the prompt or ask for fewer")  # fmt: skip
