"""What the model makes of text that it does not learn from."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mindport.errors import UsageError
from mindport.training.data.batch import Batch
from mindport.training.monitor.events import Evaluation

if TYPE_CHECKING:
    from mindspore import nn

Total = Callable[[Sequence[float]], list[float]]  # numbers → the sums of what all processes have
Loss = Callable[[Batch], tuple[float, int]]  # the mean over the tokens that count, and how many they are


def evaluate(loss: Loss, batches: Iterable[Batch], *, step: int = 0, total: Total = list) -> Evaluation:
    """The mean loss over all tokens that count: each weighs the same, in whatever batch it stands.

    Args:
        loss: of a batch, without dropout, as `Stepper.loss` computes it.
        batches: of equal shape, or there is a graph to compile for each shape.
        step: after how many steps.
        total: adds up over replicas of which each measures some of the batches.

    Raises:
        UsageError: no token counts.
    """
    began, here, tokens = time.perf_counter(), 0.0, 0
    for batch in batches:
        if batch.counted:  # a mean of nothing is NaN
            mean, counted = loss(batch)
            here, tokens = here + mean * counted, tokens + counted
    summed, counted = total((here, tokens))
    tokens = int(counted)
    if not tokens:
        raise UsageError("no token of the held-out text counts", got="all labels −100, or no batches at all",
                         do="name held-out text that is longer, or a larger share")  # fmt: skip
    return Evaluation(step, summed / tokens, perplexity(summed / tokens), tokens, time.perf_counter() - began)


def perplexity(loss: float) -> float:
    """exp(loss); infinite where a float cannot hold it."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


@contextlib.contextmanager
def evaluating(model: nn.Cell) -> Iterator[None]:
    """Dropout is off in the block; every cell is in the mode it was in afterwards."""
    modes = [(cell, cell.training, cell.phase) for _, cell in model.cells_and_names()]
    model.set_train(False)
    try:
        yield
    finally:
        for cell, training, phase in modes:
            cell.add_flags(training=training)
            cell.phase = phase
