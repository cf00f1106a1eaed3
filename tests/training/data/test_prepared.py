"""Batches of what was prepared: disjoint for ranks, the same rest from a position, the same through MindDataset."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from mindport.errors import FileError, UsageError
from mindport.training.data.mind_dataset import _Decode
from mindport.training.data.record_reader import RecordReader
from mindport.training.data.record_writer import RecordWriter
from tests.training.data.conftest import documents


@pytest.fixture
def packed(write, made):
    return made(out="packed", train=[write("a.jsonl", documents(40))], tokens=16)[1]


@pytest.fixture
def padded(write, made):
    texts = write("b.jsonl", documents(60))
    return made(out="padded", train=[texts], tokens=64, layout="padded", buckets=[24, 40])[1]


def epoch(prepared, rows, **settings):
    """The batches of about an epoch, and the position after each."""
    batches = prepared.batches("train", rows, seed=5, **settings)
    return [(next(batches), batches.position) for _ in range(-(-prepared.size("train") // rows) + 2)]


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_ranks_have_parts_of_the_same_batches(form, request):
    prepared = request.getfixturevalue(form)
    whole, *parts = (epoch(prepared, 6, rank=rank, ranks=ranks) for rank, ranks in ((0, 1), (0, 3), (1, 3), (2, 3)))
    for (batch, after), *shares in zip(whole, *parts, strict=True):
        assert all(position == after for _, position in shares)
        assert np.array_equal(batch.ids, np.concatenate([share.ids for share, _ in shares]))
        assert np.array_equal(batch.labels, np.concatenate([share.labels for share, _ in shares]))


@pytest.mark.parametrize("form", ["packed", "padded"])
def test_the_rest_from_a_position_is_identical(form, request):
    prepared = request.getfixturevalue(form)
    whole = epoch(prepared, 4)
    for at in (0, 3, len(whole) - 2):
        saved = json.loads(json.dumps(whole[at][1].as_dict()))
        again = prepared.batches("train", 4, seed=5, position=saved)
        for (batch, _), other in zip(whole[at + 1 :], again, strict=False):
            assert np.array_equal(batch.ids, other.ids) and np.array_equal(batch.labels, other.labels)


def test_an_epoch_of_several_lengths_has_every_row_once_and_fillers_that_count_nothing(padded):
    plan = sum(-(-n // 8) for n in padded.counts("train")["rows"].values())
    batches = list(islice(padded.batches("train", 8, seed=1), plan))
    found = Counter(row.tobytes() for batch in batches for row, label in zip(batch.ids, batch.labels, strict=True)
                    if (label >= 0).any())  # fmt: skip
    assert found == Counter(row.tobytes() for batch in padded.rows("train", 1) for row in batch.ids)
    assert sum(batch.counted for batch in batches) == padded.counts("train")["counted"]
    assert {batch.ids.shape for batch in batches} == {(8, length) for length in padded.lengths("train")}


def test_measuring_takes_every_row_once_or_so_many(padded):
    batches = list(padded.rows("train", 7))
    assert sum(batch.counted for batch in batches) == padded.counts("train")["counted"]
    assert {batch.ids.shape[0] for batch in batches} == {7}
    some = list(padded.rows("train", 7, limit=20))
    assert sum((batch.labels >= 0).any(1).sum() for batch in some) == 20
    assert {batch.ids.shape[1] for batch in some} == set(padded.lengths("train"))  # some of each length
    assert sum(batch.counted for batch in padded.rows("train", 7, limit=10**6)) == padded.counts("train")["counted"]


def test_mind_dataset_reads_the_same_batches(packed):
    rows, size = 4, packed.size("train")
    for rank in (0, 1):
        ours = packed.batches("train", rows, seed=3, rank=rank, ranks=2)
        data = packed.dataset("train", rows, seed=3, rank=rank, ranks=2)
        count = 0
        for ids, labels in data.create_tuple_iterator(num_epochs=1, output_numpy=True):
            batch = next(ours)
            assert np.array_equal(batch.ids, ids) and np.array_equal(batch.labels, labels)
            count += 1
        assert count == size // rows


def test_rows_out_of_order_are_noticed():
    decode = _Decode(np.array([4, 2, 9]))
    rows = np.zeros((2, 3), np.int32)
    assert decode(np.array([4, 2]), rows.view("S12"))[0].shape == (2, 3)
    with pytest.raises(RuntimeError, match=r"read rows \[8\], where \[9\]"):
        decode(np.array([8]), rows[:1].view("S12"))


def test_rows_of_several_files_are_found_and_checked(tmp_path):
    rows = np.arange(11 * 8, dtype=np.int32).reshape(11, 8) - 20
    writer = RecordWriter(tmp_path, "train", 8, file_bytes=4 * 8 * 4)
    writer.add(rows[:3])
    writer.add(rows[3:])
    names = writer.close()
    assert len(names) == 3
    reader = RecordReader(tmp_path, names, 8)
    order = np.array([10, 0, 4, 3, 7, 8, 0])
    assert np.array_equal(reader.take(order), rows[order])
    with pytest.raises(FileError, match="not in order"):
        RecordReader(tmp_path, names[::-1], 8)
    with pytest.raises(FileError, match="not of 4 tokens"):
        RecordReader(tmp_path, names, 4)


def test_what_makes_no_sense_is_refused(packed, padded):
    with pytest.raises(UsageError, match="no such split"):
        packed.batches("test", 4, seed=1)
    with pytest.raises(UsageError, match="divided among the ranks"):
        packed.batches("train", 4, seed=1, ranks=3)
    with pytest.raises(UsageError, match="no such position"):
        packed.batches("train", 4, seed=1, position={"epoch": 0, "row": 10**6})
    with pytest.raises(UsageError, match="one length"):
        padded.dataset("train", 4, seed=1)
