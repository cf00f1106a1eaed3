"""What a trace holds: the answer of `mindport trace`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.errors import some
from mindport.parity.trace import ARRAYS, read_trace
from mindport.results import Result
from mindport.tables import Table


@dataclass(frozen=True)
class Entry:
    """One array."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    exact: bool
    finite: bool


@dataclass(frozen=True, kw_only=True)
class TraceSummary(Result):
    """A trace on disk.

    Attributes:
        path: the directory.
        made_by: what was run.
        versions: of the packages there.
        loss: the scalar, None where there is none.
        entries: every array, in the order of the run.
        skipped: what was not kept, and why.
        not_called: modules that the run did not call.
        bytes: of the arrays on disk.
    """

    path: str
    made_by: str
    versions: dict[str, str]
    loss: float | None
    entries: tuple[Entry, ...]
    skipped: dict[str, str]
    not_called: tuple[str, ...]
    bytes: int

    @property
    def odd(self) -> list[str]:
        """The arrays with NaN or infinities."""
        return [entry.name for entry in self.entries if not entry.finite]

    @property
    def ok(self) -> bool:
        return bool(self.entries)

    def headline(self) -> str:
        exact = f"{sum(entry.exact for entry in self.entries)} with float64 beside them"
        said = f"{len(self.entries)} arrays of {self.made_by} in {self.path} ({self.bytes:,} bytes), {exact}"
        return said + f"; NaN or infinities in {some(self.odd)}" * bool(self.odd)

    def tables(self) -> tuple[Table, ...]:
        arrays = [(entry.name, entry.shape, entry.dtype, entry.exact, entry.finite) for entry in self.entries]
        left = [("skipped", name, why) for name, why in self.skipped.items()]
        left += [("not called", name, "hooks see a call of the module itself only") for name in self.not_called]
        tables = (
            Table("arrays, in the order of the run", ("name", "shape", "dtype", "float64", "finite"), arrays),
            Table("left out", ("what", "name", "why"), left),
        )
        return tuple(table for table in tables if table.rows)


def summarise(path: Path | str) -> TraceSummary:
    """Read a trace and say what is in it.

    Raises:
        FileError: it is missing, damaged, or of another version.
    """
    trace = read_trace(Path(path))
    about = trace.about
    said = [name for name in [*about.get("order", ()), *about.get("backward", ())] if name in trace]
    names = dict.fromkeys([*said, *trace.arrays])
    loss = float(trace["loss"]) if "loss" in trace and trace["loss"].size == 1 else about.get("loss")
    return TraceSummary(
        path=str(path), made_by=str(about.get("made_by", "?")), versions=dict(about.get("versions", {})), loss=loss,
        entries=tuple(Entry(name, x.shape, x.dtype.name, name in trace.missed, _is_finite(x))
                      for name, x in ((name, trace[name]) for name in names)),
        skipped=dict(about.get("skipped", {})), not_called=tuple(about.get("not_called", ())),
        bytes=(Path(path) / ARRAYS).stat().st_size,
    )  # fmt: skip


def _is_finite(x: np.ndarray) -> bool:
    return bool(np.isfinite(x.astype(np.float64)).all())
