"""Processes of our own, for frameworks that must not meet, for code of the user's, and for what is measured alone."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import IO

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


def own_stdout() -> IO[str]:
    """In a process that answers: its stdout for the answers alone; what frameworks print there goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def run_file(path: Path) -> ModuleType:
    """In a process for the user's code: a file as a module, which may import what lies beside it."""
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # of a name that ends in .py they are there
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
