"""In which order rows are read: the same on every machine, under every number of ranks, and from every position.

Rows of one length go on from epoch to epoch, so that every batch is full. Rows of several lengths: a batch has one
length, and the last of each length is filled up with rows in which nothing counts, so that an epoch is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mindport.errors import UsageError

FILLER = -1  # the number of a row in which nothing counts


@dataclass(frozen=True)
class Position:
    """The next batch: an epoch, and how many rows of it were given (fillers count)."""

    epoch: int = 0
    row: int = 0

    def as_dict(self) -> dict[str, int]:
        """For JSON; `Position(**value)` is the way back."""
        return asdict(self)


def permutation(size: int, seed: int, *stream: int) -> np.ndarray:
    """int64 (size,): the numbers below `size` in an order that the seed and the stream decide.

    Sorted raw output of PCG64: NumPy promises that stream for all versions, that of `Generator.permutation` not.
    """
    bits = np.random.PCG64(np.random.SeedSequence([seed, *stream]))
    return np.argsort(bits.random_raw(size), kind="stable")


class Order:
    """Positions to rows.

    Args:
        sizes: rows of each length.
        rows: of a batch, over all ranks.
        seed: of the permutations.
        shuffle: False: as the rows lie in the files.
    """

    def __init__(self, sizes: Mapping[int, int], rows: int, seed: int, shuffle: bool) -> None:
        self.sizes, self.rows, self.seed, self.shuffle = dict(sorted(sizes.items())), rows, seed, shuffle
        self.epoch = -1  # of the permutations below
        self.rows_of: dict[int, np.ndarray] = {}
        self.plan: list[tuple[int, int]] = []  # the length of each batch, and its first row in the permutation

    def batch(self, position: Position) -> tuple[int, np.ndarray, Position]:
        """The length of a batch, its rows (B,) int64, and the position after it."""
        return self._filled(position) if len(self.sizes) > 1 else self._carried(position)

    def batches_per_epoch(self) -> int:
        """Batches that hold every row once, the last of each length filled up."""
        return sum(-(-size // self.rows) for size in self.sizes.values())

    def once(self) -> Iterator[np.ndarray]:
        """The rows of each batch of an epoch of one length, in the order of the files; the last one is filled up."""
        (size,) = self.sizes.values()
        for start in range(0, size, self.rows):
            yield self._full(np.arange(start, min(start + self.rows, size)))

    def epoch_rows(self, epoch: int) -> np.ndarray:
        """All rows of an epoch of one length, in its order."""
        ((length, size),) = self.sizes.items()
        return self._order(size, epoch, length)

    def check(self, position: Position) -> None:
        """Refuse a position that this order never has.

        Raises:
            UsageError: it is outside of an epoch, or between two batches.
        """
        several = len(self.sizes) > 1
        end = self.batches_per_epoch() * self.rows if several else sum(self.sizes.values())
        step = self.rows if several else 1
        if position.epoch < 0 or not 0 <= position.row < end or position.row % step:
            raise UsageError("the data has no such position", got=position.as_dict(),
                             expected=f"a row below {end}" + (f", a multiple of {step}" if several else ""),
                             do="resume with the data and the rows of a batch that the run had")  # fmt: skip

    def _carried(self, position: Position) -> tuple[int, np.ndarray, Position]:
        ((length, size),) = self.sizes.items()
        taken, (epoch, row) = [], (position.epoch, position.row)
        wanted = self.rows
        while wanted:
            self._enter(epoch)
            piece = self.rows_of[length][row : row + wanted]
            taken.append(piece)
            wanted, row = wanted - len(piece), row + len(piece)
            if row == size:
                epoch, row = epoch + 1, 0
        return length, np.concatenate(taken), Position(epoch, row)

    def _filled(self, position: Position) -> tuple[int, np.ndarray, Position]:
        self._enter(position.epoch)
        length, start = self.plan[position.row // self.rows]
        rows = self._full(self.rows_of[length][start : start + self.rows])
        after = position.row + self.rows
        whole = after == len(self.plan) * self.rows
        return length, rows, Position(position.epoch + whole, 0 if whole else after)

    def _full(self, rows: np.ndarray) -> np.ndarray:
        return np.concatenate((rows, np.full(self.rows - len(rows), FILLER)))

    def _enter(self, epoch: int) -> None:
        """Draw the permutations of an epoch, unless they are there."""
        if epoch == self.epoch:
            return
        self.epoch = epoch
        self.rows_of = {length: self._order(size, epoch, length) for length, size in self.sizes.items()}
        if len(self.sizes) > 1:
            plan = [(length, start) for length, size in self.sizes.items() for start in range(0, size, self.rows)]
            self.plan = [plan[index] for index in self._order(len(plan), epoch, 0)]

    def _order(self, size: int, epoch: int, stream: int) -> np.ndarray:
        return permutation(size, self.seed, epoch, stream) if self.shuffle else np.arange(size)


def position_of(value: Position | Mapping[str, Any]) -> Position:
    """A position out of a checkpoint's JSON."""
    return value if isinstance(value, Position) else Position(int(value["epoch"]), int(value["row"]))
