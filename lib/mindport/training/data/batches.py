"""Batches in our order, and the position from which the rest is the same again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mindport.training.data.batch import Batch
from mindport.training.data.encoder import to_batch
from mindport.training.data.order import Order, Position
from mindport.training.data.record_reader import RecordReader


class Batches:
    """An endless iterator of batches. `Prepared.batches` makes it.

    Attributes:
        position: of the next batch. The same on all ranks, and for every number of them.
    """

    def __init__(self, readers: Mapping[int, RecordReader], order: Order, rank: int, ranks: int, pad: int,
                 position: Position) -> None:  # fmt: skip
        order.check(position)
        share = order.rows // ranks
        self._readers, self._order, self._pad = readers, order, pad
        self._mine = slice(rank * share, (rank + 1) * share)
        self.position = position

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Batch:
        length, rows, after = self._order.batch(self.position)
        batch = gather(self._readers[length], rows[self._mine], self._pad)
        self.position = after
        return batch


def gather(reader: RecordReader, rows: np.ndarray, pad: int) -> Batch:
    """Rows by their numbers; a negative number is a row of padding."""
    fillers = rows < 0
    if not fillers.any():
        return to_batch(reader.take(rows))
    tokens = np.full((len(rows), reader.length), ~pad, np.int32)
    tokens[~fillers] = reader.take(rows[~fillers])
    return to_batch(tokens)
