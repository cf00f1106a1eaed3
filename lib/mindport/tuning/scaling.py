"""What a layer costs when the sequence doubles: measured, and by counting operations."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.config import to_dict
from mindport.measure.flops import TRAINING, attention_flops, layers_flops
from mindport.results import Property, Result
from mindport.tables import Table
from mindport.tuning.isolated import isolated
from mindport.tuning.workload import cut_model, effort, shaped

CLAIM = 4.0  # what "attention is quadratic" is often taken to mean for a layer
FIRST = 3  # of the rounds, at least


@dataclass(frozen=True)
class Length:
    """One layer, forward and backward, on one sequence.

    Attributes:
        tokens: T.
        seconds: the median.
        flops: of the mathematics.
        attention: share of them that grows with T².
    """

    tokens: int
    seconds: float
    flops: float
    attention: float


@dataclass(frozen=True)
class Scaling(Result):
    """Lengths that double."""

    workload: str
    lengths: tuple[Length, ...]

    @property
    def ok(self) -> bool:
        """Whether there is something to compare; how a machine scales is no verdict."""
        return len(self.lengths) > 1 and all(length.seconds > 0 for length in self.lengths)

    def factors(self) -> dict[str, list[float]]:
        """By what each doubling multiplies, for the plot: measured, by operations, and as it is often claimed."""
        pairs = list(zip(self.lengths, self.lengths[1:], strict=False))
        return {
            "measured": [after.seconds / before.seconds for before, after in pairs],
            "by operations": [after.flops / before.flops for before, after in pairs],
            "if all were quadratic": [CLAIM] * len(pairs),
        }

    def headline(self) -> str:
        first, last, found = self.lengths[0], self.lengths[-1], self.factors()
        return (f"doubling T from {first.tokens} to {last.tokens} multiplies the time by "
                f"{', '.join(f'{x:.2f}' for x in found['measured'])}, the operations by "
                f"{', '.join(f'{x:.2f}' for x in found['by operations'])}; of the last, {last.attention:.0%} are "
                "attention's")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        found = self.factors()
        rows = [
            (length.tokens, f"{1e3 * length.seconds:.3g}", measured, by, f"{length.attention:.0%}",
             f"{length.flops / length.seconds / 1e9:.1f}")
            for length, measured, by in zip(self.lengths, [None, *found["measured"]], [None, *found["by operations"]],
                                            strict=True)
        ]  # fmt: skip
        columns = ("T", "ms", "× time", "× operations", "attention's share of them", "GFLOP/s")
        return (Table(f"one layer, forward and backward: {self.workload}", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = "one layer in Graph mode, forward and backward, one sequence, beside its operations by formula"
        return (Property("what doubling the sequence costs a layer is measured", "verified", how, self.headline(),
                         "CPU"),)  # fmt: skip


def compare_lengths(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Scaling:
    """Time one layer of the model at lengths that double.

    Raises:
        BackendError: the measuring process failed.
    """
    chosen = effort(size)
    shortest, longest = chosen.lengths
    config = shaped(cut_model(directory, size, allow).config.with_layers(1), 1, longest).config
    tokens = [shortest << i for i in range((longest // shortest).bit_length())]
    seconds = isolated(measure, to_dict(config), tokens, max(FIRST, chosen.rounds))
    lengths = []
    for count, median in zip(tokens, seconds, strict=True):
        flops = TRAINING * layers_flops(config, 1, count)
        pairs = TRAINING * attention_flops(config.num_attention_heads, config.head_dim, count)
        lengths.append(Length(count, median, flops, pairs / flops))
    return Scaling(f"{config.model_type}, width {config.hidden_size}", tuple(lengths))


def measure(config: dict[str, Any], tokens: Sequence[int], rounds: int) -> list[float]:
    """Median seconds of a layer at each length, in turn; run in a process of its own."""
    from mindport.tuning import ours

    built = [ours.layer(config=config, batch=1, tokens=count) for count in tokens]
    for each in built:
        each.run()
    seconds: list[list[float]] = [[] for _ in built]
    for _ in range(rounds):
        for each, found in zip(built, seconds, strict=True):
            start = time.perf_counter()
            each.run()
            found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in seconds]
