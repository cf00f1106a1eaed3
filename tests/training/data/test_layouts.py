"""Documents to rows: nothing is lost, repeated or miscounted, whatever the documents and the lengths."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mindport.training.data.batch import IGNORED
from mindport.training.data.encoder import to_batch
from mindport.training.data.layouts import Counts, Packed, Padded

PAD = 7
# a number is a token; a negative one does not count. Each document has at least one
DOCUMENTS = st.lists(st.lists(st.integers(-900, 900), min_size=1, max_size=30), max_size=12)
SHARDS = st.lists(DOCUMENTS, max_size=4)


def feed(layout, shards):
    """All rows of all shards, by their length."""
    found: dict[int, list[list[int]]] = {}
    for shard in shards:
        tokens = np.array([token for document in shard for token in document], np.int32)
        for length, rows in layout.feed(tokens, np.array([len(d) for d in shard], np.int64)):
            found.setdefault(length, []).extend(rows.tolist())
    for length, rows in layout.finish():
        found.setdefault(length, []).extend(rows.tolist())
    return found


@given(SHARDS, st.integers(2, 17))
def test_packed_rows_end_to_end_are_the_text(shards, length):
    counts = Counts()
    rows = feed(Packed(length, PAD, counts), shards).get(length, [])
    stream = [token for shard in shards for document in shard for token in document]
    flat = [token for row in rows for token in row]
    assert flat[: len(stream)] == stream
    assert flat[len(stream) :] == [~PAD] * counts.padding and counts.padding < length
    assert counts.tokens == len(stream) and sum(counts.rows.values()) == len(rows)
    assert counts.counted == sum(token >= 0 for row in rows for token in row[1:])


@given(SHARDS, st.sets(st.integers(2, 24), min_size=1, max_size=4))
def test_padded_rows_are_documents_each_in_the_shortest_length_that_holds_it(shards, lengths):
    counts = Counts()
    found = feed(Padded(sorted(lengths), PAD, counts), shards)
    longest = max(lengths)
    expected: dict[int, list[list[int]]] = {}
    whole, idle = [d for shard in shards for d in shard], 0
    for document in whole:
        kept = document[:longest]
        length = min(n for n in lengths if n >= len(kept))
        row = kept + [~PAD] * (length - len(kept))
        if any(token >= 0 for token in row[1:]):
            expected.setdefault(length, []).append(row)
        else:
            idle += len(kept)
    assert found == expected
    assert counts.tokens + counts.cut + counts.idle_tokens == sum(map(len, whole)) and counts.idle_tokens == idle
    assert counts.truncated == sum(len(document) > longest for document in whole)


@given(st.lists(st.integers(-900, 900), min_size=1, max_size=20))
def test_ids_and_labels_are_told_apart(tokens):
    batch = to_batch(np.array([tokens], np.int32))
    assert batch.ids[0].tolist() == [token if token >= 0 else -1 - token for token in tokens]
    assert batch.labels[0].tolist() == [token if token >= 0 else IGNORED for token in tokens]
    assert batch.ids.dtype == batch.labels.dtype == np.int32
