"""One piece of work at a time, beside the training.

The thread touches files and NumPy only: MindSpore is not to be used from several threads. The interpreter waits for
it before it ends, however it ends, unless it is killed.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Background:
    """Runs work in a thread; an error of it is raised by the next call, and never lost."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)
        self._work: list[Future[None]] = []
        weakref.finalize(self, _tell, self._work)

    def start(self, work: Callable[[], None]) -> None:
        """Begin, when what was begun before is done."""
        self.wait()
        self._work.append(self._pool.submit(work))

    def wait(self) -> None:
        """Wait for what was begun; raises what that raised, once."""
        if self._work:
            self._work[0].exception()  # an interruption leaves it here, to be waited for again
            self._work.pop().result()

    def close(self) -> None:
        """Wait, and let the thread go."""
        try:
            self.wait()
        finally:
            self._pool.shutdown()


def _tell(work: list[Future[None]]) -> None:
    """At the end of the process: an error that nobody waited for."""
    for future in work:
        if future.done() and (error := future.exception()) is not None:
            print(f"a checkpoint was not written: {error}", file=sys.stderr)
