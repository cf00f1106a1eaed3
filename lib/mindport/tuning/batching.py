"""A larger batch at once or in pieces: tokens a second, memory, and what becomes of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tuning.study import Figures, figures, form, milliseconds, study
from mindport.tuning.workload import cut_model, effort, shaped

WHOLE = 4  # sequences of the large batch


@dataclass(frozen=True)
class Batching(Result):
    """The same batch at once and in pieces.

    Attributes:
        workload: in words.
        tokens: in the whole batch.
        ways: at once first.
    """

    workload: str
    tokens: int
    ways: tuple[Figures, ...]

    @property
    def ok(self) -> bool:
        """Whether pieces add up to the whole."""
        return len(self.ways) > 1 and all(way.same for way in self.ways)

    def headline(self) -> str:
        whole, *pieces = self.ways
        parts = [f"{way.name}: {whole.seconds / way.seconds:.2f} × the tokens/s, {way.memory / whole.memory:.2f} × the "
                 "memory" for way in pieces]  # fmt: skip
        return "; ".join(parts) + ("; same gradients" if self.ok else "; NOT THE SAME GRADIENTS")

    def tables(self) -> tuple[Table, ...]:
        rows = [(way.name, round(self.tokens / way.seconds), milliseconds(way.seconds), round(way.memory),
                 way.loss_error, way.gradient_error, way.state) for way in self.ways]  # fmt: skip
        columns = ("batch", "tokens/s", "ms a step", "memory MB", "loss off by", "gradient off by", "state")
        return (Table(f"batch and accumulation: {self.workload}", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = f"losses of the first steps and first gradients of a batch in pieces, beside all at once; {self.workload}"
        return (verdict("accumulated gradients equal those of the whole batch", self.ok, how, self.headline(), "CPU"),)


def compare_batches(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Batching:
    """Train the cut model on a batch of four sequences: at once, in two pieces, in four.

    Raises:
        BackendError: a process failed.
    """
    chosen, cut = effort(size), cut_model(directory, size, allow)
    large = shaped(cut.config, WHOLE, cut.tokens)
    ways = [form(f"{WHOLE} at once" if pieces == 1 else f"{pieces} × {WHOLE // pieces}", large, pieces=pieces,
                 mode=chosen.mode) for pieces in (1, 2, WHOLE)]  # fmt: skip
    return Batching(large.name, WHOLE * large.tokens, figures(study(large, ways, chosen)))


def scaled_rates(rate: float, batch: int, factors: Sequence[int] = (1, 2, 4, 8, 16)) -> Table:
    """The linear rule: k times the batch, k times the learning rate, a k-th of the steps.

    k steps of rate r along k gradients come to r · Σ gᵢ; one step of rate k·r along their mean comes to the same, as
    long as the weights hardly moved in between. What is left of the noise falls with √k. It is a rule of thumb: the
    gradients must be alike, so warm up, and expect it to end somewhere. (arXiv:1706.02677)

    Args:
        rate: at `batch`.
        batch: sequences, tokens, whatever is counted.
        factors: k.
    """
    rows = [(k, k * batch, f"{k * rate:g}", f"1/{k}", f"{1 / math.sqrt(k):.2f}") for k in factors]
    return Table("linear scaling", ("k", "batch", "learning rate", "steps an epoch", "noise of a gradient"), rows)
