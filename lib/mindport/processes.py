"""Processes of our own, for frameworks that must not meet, for code of the user's, and for what is measured alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def environment(**settings: str) -> dict[str, str]:
    """The variables of a process that finds this package whatever its directory; `settings` go before those here.

    The user's own path stays in front: beside an installed package there are others, which it may replace.
    """
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(PACKAGE))))
    return {**os.environ, **settings, "PYTHONPATH": path}


def ending(code: int) -> str:
    """How a process ended, by its return code: `exit code 3`, `signal 11 (Segmentation fault)`."""
    return f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"


def last_line(said: str) -> str:
    """The last line that is not blank; nothing where there is none."""
    return next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
