"""What a rank that is alone makes of talking to the others. Among several: tests/parallel/test_train.py."""

from __future__ import annotations

import numpy as np
import pytest

from mindport.ranks import ALONE, Ranks
from mindport.training.collective import after_first, gather, most, total, wait
from mindport.training.consistency import NAME, check_ranks, odd_ranks
from mindport.training.gathered import Arrays


@pytest.mark.parametrize("axis", ["dp", "tp", "all"])
def test_alone_everything_is_what_it_is(axis):
    x = np.array([[1.5, np.nan]], np.float32)
    assert gather(ALONE, x, axis).shape == (1, 1, 2) and np.array_equal(gather(ALONE, x, axis)[0], x, equal_nan=True)
    assert total(ALONE, (0.1, 2**53), axis) == [0.1, 2.0**53] and most(ALONE, (3, -1)) == [3.0, -1.0]
    wait(ALONE)


def test_an_axis_of_one_needs_no_message():
    """Two shares of one replica: nothing to add up over replicas."""
    assert total(Ranks(1, 2, 1, "", "mindport-nobody"), [4.0]) == [4.0]


def test_the_first_rank_is_first():
    order = []
    with after_first(ALONE):
        order.append("first")
    assert order == ["first"] and check_ranks(ALONE, {"norm.weight": np.ones(3, np.float32)}, (), 5) is None


def digests(ranks: int, names: int) -> np.ndarray:
    return np.tile(np.arange(names, dtype=np.uint8)[None, :, None], (ranks, 1, 16))


def test_equal_ranks_have_no_odd_one():
    told = digests(4, 3)
    told[1::2, 0] = 77  # a split weight: ranks 1 and 3 have the other part
    assert odd_ranks(told, ["q", "norm", "bias"], {"q"}, 2) == {}
    assert odd_ranks(told, ["q", "norm", "bias"], {}, 2) == {"q": (1, 3)}


def test_the_odd_rank_is_named_with_its_weight():
    told = digests(4, 3)
    told[2, 1, 5] ^= 1
    assert odd_ranks(told, ["q", "norm", "bias"], {"q"}, 2) == {"norm": (2,)}
    told[3, 0] = 9  # of a part that two ranks have, the first of them is believed
    assert odd_ranks(told, ["q", "norm", "bias"], {"q"}, 2) == {"q": (3,), "norm": (2,)}


def test_the_alarm_says_which(monkeypatch):
    told = digests(2, 2)
    told[1, 0] = 5
    monkeypatch.setattr("mindport.training.consistency.gather", lambda ranks, array: told)
    weights = {"embed.weight": np.zeros(2, np.float32), "norm.weight": np.zeros(2, np.float32)}
    alarm = check_ranks(Ranks(2, 1, 0, "mindport-nobody"), weights, (), 7)
    assert alarm.fatal and (alarm.step, alarm.name) == (7, NAME) and "embed.weight on rank 1 is not" in alarm.says


def test_whether_there_is_an_array_is_asked_without_it():
    """Of parts that are gathered each look-up is a message, which the other ranks would have to know of."""

    class Device:
        def asnumpy(self) -> np.ndarray:
            raise AssertionError("fetched")

    arrays = Arrays({"norm.weight": Device()})
    assert "norm.weight" in arrays and "norm.bias" not in arrays
    with pytest.raises(AssertionError, match="fetched"):
        _ = arrays["norm.weight"]
