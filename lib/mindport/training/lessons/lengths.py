"""What it costs when rows have every length: a graph for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.data.batch import IGNORED, Batch
from mindport.training.lessons.laboratory import Laboratory

COUNT = 3  # different lengths
LIMIT = 1e-5  # relative, of a loss


@dataclass(frozen=True)
class Length:
    """One length of rows.

    Attributes:
        tokens: of a row.
        first, again: seconds of the first step with it, and of a second one.
        loss: of the first step.
        padded_loss: of the same text, padded to the longest.
    """

    tokens: int
    first: float
    again: float
    loss: float
    padded_loss: float


@dataclass(frozen=True)
class CompileCost(Result):
    """Rows of several lengths as they are, and padded to one.

    Attributes:
        lengths: as they came.
        graphs: that were compiled for them.
        padded_graphs: that were compiled for the same rows, padded.
        padded_seconds: of all steps with these, the compilation included.
    """

    lengths: tuple[Length, ...]
    graphs: int
    padded_graphs: int
    padded_seconds: float

    @property
    def seconds(self) -> float:
        """Of the first steps together."""
        return sum(length.first for length in self.lengths)

    @property
    def ok(self) -> bool:
        """One graph for each length, one for all when padded, and the same losses."""
        alike = all(abs(length.loss - length.padded_loss) <= LIMIT * abs(length.loss) for length in self.lengths)
        return alike and self.graphs == len(self.lengths) and self.padded_graphs == 1

    def headline(self) -> str:
        return (f"{len(self.lengths)} lengths are {self.graphs} graphs and {self.seconds:.1f} s; padded to one length "
                f"{self.padded_graphs} graph and {self.padded_seconds:.1f} s, with the same losses")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [(length.tokens, f"{length.first:.2f}", f"{length.again:.3f}", f"{length.loss:.5f}",
                 f"{length.padded_loss:.5f}") for length in self.lengths]  # fmt: skip
        columns = ("tokens of a row", "first step, s", "again, s", "loss", "loss, padded")
        return (Table("rows of several lengths in Graph mode", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        return (verdict("padding to a fixed length changes no loss", self.ok,
                        "labels of padding are ignored; graphs counted in the cells' own caches", self.headline(),
                        "CPU"),)  # fmt: skip


def compile_cost(laboratory: Laboratory) -> CompileCost:
    """Take a step with each length, twice; then the same rows padded to the longest.

    The learning rate is all but 0, so that all see the same weights.
    """
    [whole] = laboratory.batches(1)
    longest = whole.ids.shape[1]
    tokens = [longest - i * max(1, longest // (2 * COUNT)) for i in range(COUNT)]
    still = ("mode=graph", "optimizer.lr=1.0e-12")
    changing = laboratory.stepper(*still, f"data.buckets={sorted(tokens)}", "data.layout=padded")
    fixed = laboratory.stepper(*still)
    rows, padded = [_cut(whole, length) for length in tokens], [_padded(whole, length) for length in tokens]
    first, again = ([changing.step([batch]) for batch in rows] for _ in range(2))
    same = [fixed.step([batch]) for batch in padded]
    lengths = (
        Length(length, one.seconds, two.seconds, one.loss, three.loss)
        for length, one, two, three in zip(tokens, first, again, same, strict=True)
    )
    return CompileCost(tuple(lengths), changing.compiles.total, fixed.compiles.total, sum(r.seconds for r in same))


def _cut(batch: Batch, length: int) -> Batch:
    return Batch(np.ascontiguousarray(batch.ids[:, :length]), np.ascontiguousarray(batch.labels[:, :length]))


def _padded(batch: Batch, length: int) -> Batch:
    beyond = np.arange(batch.ids.shape[1]) >= length
    return Batch(np.where(beyond, 0, batch.ids), np.where(beyond, IGNORED, batch.labels))
