"""From documents to batches of all ranks, whatever the lengths: every token once an epoch, with its own label."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.training.data.batch import IGNORED
from mindport.training.data.batches import Batches
from mindport.training.data.layouts import Counts, Packed, Padded
from mindport.training.data.order import Order, Position
from tests.training.data.test_layouts import PAD, SHARDS, feed


class Rows:
    """What `RecordReader` is, in memory."""

    def __init__(self, length: int, rows: list[list[int]]) -> None:
        self.length, self.rows = length, np.array(rows, np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: np.ndarray) -> np.ndarray:
        return self.rows[rows]


def slots(tokens) -> Counter:
    """Ids with their labels; ~id is an id that does not count."""
    return Counter((token, token) if token >= 0 else (-1 - token, IGNORED) for token in tokens)


@settings(max_examples=60)
@given(SHARDS, st.sets(st.integers(2, 20), min_size=1, max_size=3), st.booleans(), st.integers(1, 3), st.integers(1, 3))
def test_every_token_is_in_an_epoch_once_whoever_reads_it(shards, lengths, packed, ranks, share):
    counts, rows = Counts(), ranks * share
    layout = Packed(max(lengths), PAD, counts) if packed else Padded(sorted(lengths), PAD, counts)
    readers = {length: Rows(length, found) for length, found in feed(layout, shards).items()}
    if not readers:
        return
    order = Order({length: len(reader) for length, reader in readers.items()}, rows, 9, True)
    several = len(readers) > 1
    # of one length so many batches end with an epoch; each row was then there `rows` times
    steps = order.batches_per_epoch() if several else len(next(iter(readers.values())))
    seen: Counter = Counter()
    for rank in range(ranks):
        batches = Batches(readers, order, rank, ranks, PAD, Position())
        for batch in (next(batches) for _ in range(steps)):
            assert batch.ids.shape == batch.labels.shape == (share, batch.ids.shape[1])
            seen.update(zip(batch.ids.ravel().tolist(), batch.labels.ravel().tolist(), strict=True))
        assert batches.position == Position(1 if several else rows, 0)
    given_tokens = slots(token for reader in readers.values() for token in reader.rows.ravel().tolist())
    expected = given_tokens if several else Counter({slot: n * rows for slot, n in given_tokens.items()})
    fillers = seen - expected
    assert set(fillers) <= {(PAD, IGNORED)} and not expected - seen
    if packed:
        text = slots(token for shard in shards for document in shard for token in document)
        assert given_tokens == text + Counter({(PAD, IGNORED): counts.padding})
