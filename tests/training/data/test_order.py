"""The order of rows: whole epochs, disjoint ranks, and the same rest from every position."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.errors import UsageError
from mindport.training.data.order import FILLER, Order, Position, permutation, position_of

SIZES = st.dictionaries(st.sampled_from((16, 32, 64)), st.integers(1, 23), min_size=1)


def walk(order: Order, batches: int, position: Position = Position()):  # noqa: B008
    found = []
    for _ in range(batches):
        length, rows, after = order.batch(position)
        found.append((position, length, rows.tolist()))
        position = after
    return found, position


@given(SIZES, st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_an_epoch_has_every_row_once(sizes, rows, shuffle, seed):
    order = Order(sizes, rows, seed, shuffle)
    if len(sizes) > 1:
        found, end = walk(order, order.batches_per_epoch())
        assert end == Position(1, 0)
        given_rows = Counter((length, row) for _, length, batch in found for row in batch if row != FILLER)
    else:  # one length goes on into the next epoch; so many batches end with one
        ((length, size),) = sizes.items()
        found, end = walk(order, size)
        assert end == Position(rows, 0)
        given_rows = Counter((length, row) for _, _, batch in found for row in batch)
        first = [row for _, _, batch in found for row in batch][:size]
        assert sorted(first) == list(range(size))
    assert set(given_rows) == {(length, row) for length, size in sizes.items() for row in range(size)}
    assert set(given_rows.values()) == {1 if len(sizes) > 1 else rows}
    assert all(len(batch) == rows for _, _, batch in found)


@given(SIZES, st.integers(1, 9), st.integers(0, 99), st.data())
def test_the_rest_from_a_position_is_the_same(sizes, rows, seed, data):
    whole, _ = walk(Order(sizes, rows, seed, True), 12)
    at = data.draw(st.integers(0, 11))
    again = position_of(whole[at][0].as_dict())
    assert walk(Order(sizes, rows, seed, True), 12 - at, again)[0] == whole[at:]


def test_seeds_and_epochs_have_orders_of_their_own():
    orders = [permutation(50, seed, epoch, 16).tolist() for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4 and all(sorted(order) == list(range(50)) for order in orders)


def test_the_order_is_the_same_for_ever():
    assert permutation(8, 20251, 0, 128).tolist() == [1, 2, 7, 6, 3, 4, 0, 5]


@pytest.mark.parametrize("position", [Position(0, 10), Position(0, -1), Position(-1, 0)])
def test_a_position_of_other_data_is_refused(position):
    with pytest.raises(UsageError, match="no such position"):
        Order({16: 10}, 4, 1, True).check(position)
    with pytest.raises(UsageError, match="a multiple of 4"):
        Order({16: 10, 32: 5}, 4, 1, True).check(Position(0, 3))


def test_a_batch_larger_than_the_data_takes_several_epochs():
    _, rows, after = Order({16: 3}, 8, 1, False).batch(Position())
    assert rows.tolist() == [0, 1, 2, 0, 1, 2, 0, 1] and after == Position(2, 2)
    assert isinstance(rows, np.ndarray)
