"""How far a long job is: a bar on a terminal, a line now and then elsewhere, always on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

Advance = Callable[[int], None]


@contextlib.contextmanager
def progress(what: str, total: int, *, show: bool = True) -> Iterator[Advance]:
    """Yield a function that takes the bytes done since its last call.

    Args:
        what: the job in a few words.
        total: bytes in all.
        show: False for silence.
    """
    if not show:
        yield lambda done: None
    elif sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(total=total, desc=what, unit="B", unit_scale=True, file=sys.stderr) as bar:
            yield bar.update
    else:
        yield _Lines(what, total)


class _Lines:
    """A line every tenth of the way, but not more than one a second: a short job says nothing."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done, self.said = what, total, 0, 0
        self.began = self.at = time.monotonic()

    def __call__(self, done: int) -> None:
        self.done += done
        tenth = 10 * self.done // max(self.total, 1)
        if tenth > self.said and time.monotonic() - self.at >= 1:
            self.said, self.at = tenth, time.monotonic()
            left = (self.at - self.began) * (self.total - self.done) / self.done
            print(f"{self.what}: {10 * tenth} % of {self.total / 1e6:,.0f} MB, about {left:,.0f} s left",
                  file=sys.stderr, flush=True)  # fmt: skip
