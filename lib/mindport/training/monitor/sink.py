"""Where events go."""

from __future__ import annotations

from typing import Protocol

from mindport.training.monitor.events import Event


class Sink(Protocol):
    """Takes every event in the order in which it happens, then is closed once."""

    def take(self, event: Event) -> None:
        """One event."""

    def close(self) -> None:
        """There are no more."""
