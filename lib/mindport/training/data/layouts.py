"""Documents to rows of fixed length; arithmetic on whole arrays, no token by itself.

Tokens are as `encoder` has them: ~id where a token does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

Rows = tuple[int, np.ndarray]  # a length, and int32 (n, length)


@dataclass
class Counts:
    """What became of the text of a split.

    Attributes:
        documents: that went into rows.
        empty: documents without text.
        duplicates: documents left out because their text is there already.
        tokens: that are in rows.
        counted: of these, what the loss is a mean of.
        padding: slots of rows without a token.
        truncated, cut: documents longer than a row (padded layout), and their tokens beyond it.
        idle: rows in which nothing counts: kept where documents are packed, left out where each has a row.
        idle_tokens: tokens of rows that were left out.
    """

    documents: int = 0
    empty: int = 0
    duplicates: int = 0
    tokens: int = 0
    counted: int = 0
    padding: int = 0
    truncated: int = 0
    cut: int = 0
    idle: int = 0
    idle_tokens: int = 0
    rows: dict[int, int] = field(default_factory=dict)

    def add_rows(self, rows: np.ndarray, padding: int) -> None:
        """Count finished rows."""
        length = rows.shape[1]
        self.rows[length] = self.rows.get(length, 0) + len(rows)
        self.tokens += rows.size - padding
        self.padding += padding
        self.counted += int((rows[:, 1:] >= 0).sum())


class Packed:
    """Documents end to end, cut every `length` tokens; the last row is filled up with padding."""

    def __init__(self, length: int, pad: int, counts: Counts) -> None:
        self.length, self.pad, self.counts = length, pad, counts
        self.rest = np.empty(0, np.int32)

    def feed(self, tokens: np.ndarray, lengths: np.ndarray) -> Iterator[Rows]:
        """The rows that these documents complete."""
        stream = np.concatenate((self.rest, tokens))
        whole = len(stream) // self.length * self.length
        self.rest = stream[whole:]
        rows = stream[:whole].reshape(-1, self.length)
        self.counts.idle += int((rows[:, 1:] < 0).all(1).sum())
        yield from self._rows(rows, 0)

    def finish(self) -> Iterator[Rows]:
        """The last, partial row."""
        if len(self.rest):
            padding = self.length - len(self.rest)
            yield from self._rows(np.pad(self.rest, (0, padding), constant_values=~self.pad)[None], padding)
            self.rest = self.rest[:0]

    def _rows(self, rows: np.ndarray, padding: int) -> Iterator[Rows]:
        self.counts.add_rows(rows, padding)
        if len(rows):
            yield self.length, rows


class Padded:
    """A document a row, of the shortest of some lengths that holds it; one longer than all is cut, and counted."""

    def __init__(self, lengths: Sequence[int], pad: int, counts: Counts) -> None:
        self.lengths, self.pad, self.counts = np.array(sorted(lengths)), pad, counts

    def feed(self, tokens: np.ndarray, lengths: np.ndarray) -> Iterator[Rows]:
        """The rows of these documents: those of one length together, in their order."""
        starts, longest = np.cumsum(lengths) - lengths, self.lengths[-1]
        kept = np.minimum(lengths, longest)
        self.counts.truncated += int((lengths > longest).sum())
        self.counts.cut += int((lengths - kept).sum())
        bucket = np.searchsorted(self.lengths, kept)
        for index, length in enumerate(self.lengths.tolist()):
            chosen = bucket == index
            if chosen.any():
                yield from self._rows(tokens, starts[chosen], kept[chosen], length)

    def finish(self) -> Iterator[Rows]:
        """Nothing is left over."""
        yield from ()

    def _rows(self, tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray, length: int) -> Iterator[Rows]:
        slots = np.arange(length)
        at = np.minimum(starts[:, None] + slots, len(tokens) - 1)
        rows = np.where(slots < lengths[:, None], tokens[at], np.int32(~self.pad))
        useful = (rows[:, 1:] >= 0).any(1)
        self.counts.idle += int((~useful).sum())
        self.counts.idle_tokens += int(lengths[~useful].sum())
        rows, lengths = rows[useful], lengths[useful]
        self.counts.add_rows(rows, int(rows.size - lengths.sum()))
        if len(rows):
            yield length, rows
