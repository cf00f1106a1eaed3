"""Read what comes next while what is at hand is being used."""

from __future__ import annotations

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
