"""One large batch beside the same rows in pieces: by tokens it is the same step, by the mean of means another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mindspore import Tensor

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.data.batch import IGNORED, Batch
from mindport.training.lessons.laboratory import Laboratory
from mindport.training.stepper import Stepper

PIECES, LIMIT = 4, 1e-5  # relative, of loss and norm


@dataclass(frozen=True)
class Accumulation(Result):
    """A step, taken in several ways.

    Attributes:
        counted: tokens that count, in each piece.
        whole, pieces: loss, and norm of the gradients: as one batch, and in pieces weighed by tokens.
        means: the same, of the mean of the pieces' own means.
    """

    counted: tuple[int, ...]
    whole: tuple[float, float]
    pieces: tuple[float, float]
    means: tuple[float, float]

    @property
    def ok(self) -> bool:
        return self.off(self.pieces) <= LIMIT

    def off(self, way: tuple[float, float]) -> float:
        """The larger relative difference of loss and norm from those of one batch."""
        return max(abs(a - b) / abs(a) for a, b in zip(self.whole, way, strict=True))

    def headline(self) -> str:
        right, wrong = self.off(self.pieces), self.off(self.means)
        return (f"in {len(self.counted)} pieces of {', '.join(map(str, self.counted))} tokens that count the step is "
                f"the same to {right:.1e}; the mean of the pieces' means is off by {wrong:.1%}")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [("one batch", f"{self.whole[0]:.6f}", f"{self.whole[1]:.6f}"),
                ("pieces, by tokens", f"{self.pieces[0]:.6f}", f"{self.pieces[1]:.6f}"),
                ("pieces, mean of means", f"{self.means[0]:.6f}", f"{self.means[1]:.6f}")]  # fmt: skip
        return (Table("the same rows, added up", ("how", "loss", "norm of the gradients"), rows),)

    def properties(self) -> tuple[Property, ...]:
        return (verdict("accumulated gradients are those of one large batch", self.ok,
                        f"{len(self.counted)} pieces of {', '.join(map(str, self.counted))} tokens",
                        f"{self.off(self.pieces):.1e} (limit {LIMIT:g}, relative)", "CPU"),)  # fmt: skip


def compare_accumulation(laboratory: Laboratory) -> Accumulation:
    """Take one step on rows of which each has fewer tokens that count than the one before."""
    rows = [_shortened(batch, piece) for piece, batch in enumerate(laboratory.batches(PIECES, rows=1))]
    one = laboratory.stepper("mode=pynative", f"batch.rows={PIECES}")
    many = laboratory.stepper("mode=pynative", "batch.rows=1", f"batch.accumulate={PIECES}")
    means = _mean_of_means(many, rows)
    together = one.step([Batch(*(np.concatenate([getattr(row, name) for row in rows]) for name in ("ids", "labels")))])
    apart = many.step(rows)
    return Accumulation(
        tuple(batch.counted for batch in rows), (together.loss, together.norm), (apart.loss, apart.norm),
        means,
    )  # fmt: skip


def _mean_of_means(stepper: Stepper, rows: Sequence[Batch]) -> tuple[float, float]:
    """Loss and norm as a trainer has them that lets every piece weigh alike; nothing moves."""
    found = [stepper.one.loss_and_gradients(Tensor(row.ids), Tensor(row.labels)) for row in rows]
    losses = [float(loss.asnumpy()) for loss, _ in found]
    sums = [sum(parts) for parts in zip(*([g.asnumpy() for g in gradients] for _, gradients in found), strict=True)]
    return float(np.mean(losses)), float(np.sqrt(sum(np.square(total).sum() for total in sums))) / len(rows)


def _shortened(batch: Batch, piece: int) -> Batch:
    """Less and less of it counts: from all to a quarter of what counted."""
    counts = np.flatnonzero((batch.labels != IGNORED)[0])
    kept = counts[: max(2, len(counts) * (PIECES - piece) // PIECES)]
    labels = np.full_like(batch.labels, IGNORED)
    labels[0, kept] = batch.labels[0, kept]
    return Batch(batch.ids, labels)
