"""The same cell in both modes: where PyNative and Graph differ, run and not remembered.

Graph mode reads the source of `construct` once and compiles it; what Python would have done at each call, it did then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import mindspore as ms

import mindport.model  # noqa: F401  (on a CPU errors then come at once)
from mindport.debug.mode_cases import DIFFERENCES, FOUR, Remembers, SwapTwo, redirected
from mindport.errors import UsageError, first_line
from mindport.results import Property, Result, verdict
from mindport.tables import Table

__all__ = ["FOUR", "MODES", "ModeReport", "Remembers", "SwapTwo", "compare_modes", "mode"]  # what a lesson shows, too

WIDTH = 64  # characters of a message that are shown
MODES = {"PyNative": ms.PYNATIVE_MODE, "Graph": ms.GRAPH_MODE}


@dataclass(frozen=True)
class Observed:
    """What a case said in one run: a word for each mode."""

    name: str
    what: str
    said: tuple[str, str]
    expected: tuple[str, str]
    write: str

    @property
    def as_recorded(self) -> bool:
        return all(said.startswith(expected) for said, expected in zip(self.said, self.expected, strict=True))

    @property
    def same(self) -> bool:
        return self.said[0] == self.said[1]


@dataclass(frozen=True)
class ModeReport(Result):
    """Cells in both modes."""

    rows: tuple[Observed, ...]

    @property
    def ok(self) -> bool:
        """Each mode does what it did when the table was written."""
        return all(row.as_recorded for row in self.rows)

    def headline(self) -> str:
        differ = sum(not row.same for row in self.rows)
        moved = [row.name for row in self.rows if not row.as_recorded]
        changed = f"; not as recorded: {', '.join(moved)}" if moved else ""
        return f"{differ} of {len(self.rows)} cells behave differently in Graph mode{changed}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(row.what, *row.said, row.write, "pass" if row.as_recorded else "failed") for row in self.rows]
        return (Table("the same cell in both modes", ("construct has", *MODES, "write instead", "as recorded"), rows),)

    def properties(self) -> tuple[Property, ...]:
        how = f"{len(self.rows)} cells run in both modes, held to what was recorded"
        return (verdict("PyNative and Graph differ as described", self.ok, how, self.headline(),
                        ms.get_context("device_target")),)  # fmt: skip


def compare_modes(*names: str) -> ModeReport:
    """Run cases in PyNative, then in Graph mode; the mode is afterwards what it was.

    Args:
        names: cases; none for all of them.

    Raises:
        UsageError: there is no such case.
    """
    if unknown := [name for name in names if name not in DIFFERENCES]:
        raise UsageError("there is no such case", got=unknown, expected=", ".join(DIFFERENCES))
    chosen = [DIFFERENCES[name] for name in names] or list(DIFFERENCES.values())
    said = [tuple(_said(case.run, mode) for mode in MODES.values()) for case in chosen]
    rows = [Observed(case.name, case.what, both, case.expected, case.write)  # type: ignore[arg-type]
            for case, both in zip(chosen, said, strict=True)]  # fmt: skip
    return ModeReport(tuple(rows))


@contextmanager
def mode(value: int) -> Iterator[None]:
    """Another execution mode for the time of the block."""
    before = ms.get_context("mode")
    ms.set_context(mode=value)
    try:
        yield
    finally:
        ms.set_context(mode=before)


def _said(run: Callable[[], str], value: int) -> str:
    with mode(value), _quiet():
        try:
            return run()
        except Exception as error:  # that it is refused is what the row says
            return f"{type(error).__name__}: {_first_sentence(error)}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what MindSpore's C++ writes to stderr beside the exception that it raises."""
    with Path(os.devnull).open("w") as nowhere, redirected(2, nowhere.fileno()):
        yield


def _first_sentence(error: Exception) -> str:
    line = first_line(error)
    line = line[1:] if line.startswith("'For ") else line
    return line if len(line) <= WIDTH else f"{line[:WIDTH].rstrip()} …"
