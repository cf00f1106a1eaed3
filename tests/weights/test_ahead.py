"""Two things at a time change the time, not the order, the values or the errors."""

from __future__ import annotations

import threading

import pytest

from mindport.weights.ahead import ahead, meanwhile


def test_order_and_values() -> None:
    assert list(ahead(lambda n: n * n, range(5))) == [(n, n * n) for n in range(5)]
    assert list(ahead(str, [])) == []


def test_the_next_is_read_while_the_first_is_used() -> None:
    second = threading.Event()

    def read(n: int) -> int:
        if n == 1:
            second.set()
        return n

    pairs = ahead(read, range(3))
    assert next(pairs) == (0, 0)
    assert second.wait(5)
    pairs.close()


def test_at_most_two_are_held() -> None:
    started: list[int] = []
    pairs = ahead(lambda n: started.append(n) or n, range(9))
    for n, _ in pairs:
        assert max(started, default=0) <= n + 1


def test_an_error_of_a_reading_reaches_the_user_of_that_value() -> None:
    def read(n: int) -> float:
        return 1 / (2 - n)

    seen = []
    with pytest.raises(ZeroDivisionError):
        for n, _ in ahead(read, range(5)):
            seen.append(n)
    assert seen == [0, 1]


def test_work_goes_on_during_the_block() -> None:
    begun, told = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        return 7 if told.wait(5) else 0

    with meanwhile(work) as result:
        assert begun.wait(5)
        told.set()
        assert result() == 7


def test_what_the_work_raised_is_raised_where_it_is_asked_for() -> None:
    with meanwhile(lambda: 1 / 0) as result, pytest.raises(ZeroDivisionError):
        result()
