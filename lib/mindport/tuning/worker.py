"""One contestant in a process of its own: a JSON command a line on stdin, a JSON answer a line on stdout.

    {"do": "build", "module": "mindport.tuning.ours", "function": "step", "settings": {…}}   → {"about": {…}}
    {"do": "time", "calls": 3}                                        → {"seconds": [0.11, 0.10, 0.11]}
    {"do": "memory"}                                                  → {"before": 412.0, "peak": 980.0}   in MB
    {"do": "values", "file": "values.npz"}                            → {}; the file holds the arrays by name

A command that fails answers {"error": "…"}; its traceback is on stderr. The process ends with its stdin.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mindport.measure.memory import peak, reset_peak
from mindport.processes import own_stdout
from mindport.tuning.contestant import Built


class Session:
    """The commands, each a method."""

    built: Built
    before: float

    def build(self, *, module: str, function: str, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Build the contestant; memory counts from here, after the framework's import."""
        make = getattr(importlib.import_module(module), function)
        reset_peak()
        self.before = peak()
        self.built = make(**settings)
        return {"about": dict(self.built.about)}

    def time(self, *, calls: int) -> dict[str, Any]:
        """Wall seconds of some calls."""
        return {"seconds": [self._seconds() for _ in range(calls)]}

    def memory(self) -> dict[str, Any]:
        """Before the building, and at the peak since."""
        return {"before": self.before, "peak": peak()}

    def values(self, *, file: str) -> dict[str, Any]:
        """Write what was computed."""
        np.savez(file, **self.built.values())
        return {}

    def _seconds(self) -> float:
        start = time.perf_counter()
        self.built.run()
        return time.perf_counter() - start


COMMANDS = {"build": Session.build, "time": Session.time, "memory": Session.memory, "values": Session.values}


def main(_: Sequence[str] = ()) -> int:
    """Answer until stdin ends."""
    answers, session = own_stdout(), Session()
    for line in sys.stdin:
        print(json.dumps(_answer(session, json.loads(line))), file=answers, flush=True)
    return 0


def _answer(session: Session, command: dict[str, Any]) -> dict[str, Any]:
    try:
        return COMMANDS[command.pop("do")](session, **command)
    except Exception as error:  # a framework raises whatever it met; the other side says it in its own words
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    sys.exit(main())
