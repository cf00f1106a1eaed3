"""Two things at a time: read what comes next while what is at hand is being used, and hash while all that goes on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


def ahead(read: Callable[[Item], Value], items: Iterable[Item]) -> Iterator[tuple[Item, Value]]:
    """Each item with what `read` makes of it, in order; the next one is read meanwhile, so two are held at most."""
    waiting = iter(items)
    with ThreadPoolExecutor(1, "mindport-read") as pool:
        item = next(waiting, None)
        future = pool.submit(read, item) if item is not None else None
        while item is not None and future is not None:
            now, value = item, future.result()
            item = next(waiting, None)
            future = pool.submit(read, item) if item is not None else None
            yield now, value


@contextlib.contextmanager
def meanwhile(work: Callable[[], Value]) -> Iterator[Callable[[], Value]]:
    """Do `work` during the block; yields a function that waits for what came of it, and raises what it raised."""
    with ThreadPoolExecutor(1, "mindport-meanwhile") as pool:
        yield pool.submit(work).result
