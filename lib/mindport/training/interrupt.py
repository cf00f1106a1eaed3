"""Ctrl-C and SIGTERM as a wish: the step is finished first, and a checkpoint written.

A second signal ends the process at once, as it would without us.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Wish:
    """Whether somebody wants the training to end, and by which signal."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None


def _say(number: signal.Signals) -> None:
    print(f"{number.name}: the run ends after this step, with a checkpoint; again to end at once", file=sys.stderr,
          flush=True)  # fmt: skip


@contextlib.contextmanager
def wishes(heard: Callable[[signal.Signals], None] = _say) -> Iterator[Wish]:
    """Take both signals for the time of the block; in another thread than the main one they stay as they are.

    Args:
        heard: called with the first one.
    """
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before: dict[signal.Signals, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        wish.signal = signal.Signals(number)
        _restore(before)
        heard(wish.signal)

    before.update({number: signal.signal(number, note) for number in SIGNALS})
    try:
        yield wish
    finally:
        _restore(before)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
