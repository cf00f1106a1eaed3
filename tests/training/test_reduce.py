"""Which gradients share a message. What a message does is in tests/parallel/test_train.py, among ranks."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.training.reduce import MEBI, Buckets, partition

SIZES = st.lists(st.integers(1, 40), max_size=30)


@given(SIZES, st.floats(0, 100))
def test_every_array_is_in_one_bucket_and_in_order(sizes, limit):
    buckets = partition(sizes, limit)
    assert list(itertools.chain(*buckets)) == list(range(len(sizes)))
    assert all(len(bucket) == 1 or sum(sizes[i] for i in bucket) <= limit for bucket in buckets)


@given(SIZES, st.floats(0, 100))
def test_no_two_neighbouring_buckets_would_fit_in_one(sizes, limit):
    for one, other in itertools.pairwise(partition(sizes, limit)):
        assert sum(sizes[i] for i in one) + sizes[other[0]] > limit


def test_the_ends_of_the_limit():
    assert partition([3, 1, 2], 0) == ((0,), (1,), (2,))
    assert partition([3, 1, 2], math.inf) == ((0, 1, 2),)
    assert partition([], 5) == ()


@pytest.mark.parametrize(("mebibytes", "messages"), [(0, 3), (3.5, 2), (64, 1)])
def test_the_scalars_ride_in_the_first_message(mebibytes, messages):
    buckets = Buckets([(MEBI // 4, 2), (MEBI // 4,), (MEBI // 4,)], "mindport-nobody", mebibytes)
    assert buckets.messages == len(buckets.buckets) == messages
    assert [shape for _, _, shape in buckets.buckets[0].places][:2] == [(), ()]
    assert all(len(bucket.places) == len(which) + 2 * (not which[0])
               for bucket, which in zip(buckets.buckets, buckets.chosen, strict=True))  # fmt: skip
