"""The record of one step: `<out>/<step>.json`, with its plots under `<out>/figures/`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindport.errors import FileError, UsageError, some
from mindport.files import atomic_file, read_json, write_json
from mindport.machine import machine, versions
from mindport.results import Property, Result, plain
from mindport.tables import STYLE, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMMAND_VARIABLE = "MINDPORT_COMMAND"  # `mindport run` tells its kernels by which command they were started
NAME = re.compile(r"\d\d(_[a-z0-9_]+)?")
STATES = ("verified", "failed", "skipped", "not verified")
DPI = 100


@dataclass(frozen=True)
class StepReport(Result):
    """One step as it was written: its results as JSON values, the properties it showed, and where it ran.

    Attributes:
        out: the directory of the run.
        step: two digits and a name, the stem of the notebook ("03_layer_parity").
        title: the heading on the page.
        written: UTC time, ISO 8601.
        command: the command that made it.
        versions: package name to version.
        machine: os, arch, cores, memory, device.
        results: name to `Result.as_dict()`.
        lines: the properties, for the card.
        evidence: the tables, as text cells.
        figures: PNG paths relative to `out`.
    """

    out: Path
    step: str
    title: str
    written: str
    command: str
    versions: dict[str, str]
    machine: dict[str, Any]
    results: dict[str, dict[str, Any]]
    lines: tuple[Property, ...]
    evidence: tuple[Table, ...]
    figures: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Every result is positive and no property failed."""
        return all(result["ok"] for result in self.results.values()) and not self.failed()

    def failed(self) -> list[str]:
        """The names of the properties that failed."""
        return [line.name for line in self.lines if line.state == "failed"]

    def headlines(self) -> list[str]:
        """One sentence a result."""
        return [str(result["headline"]) for result in self.results.values()]

    def headline(self) -> str:
        return f"{self.title}: {'; '.join(self.headlines())}"

    def properties(self) -> tuple[Property, ...]:
        return self.lines

    def tables(self) -> tuple[Table, ...]:
        return self.evidence

    def as_dict(self) -> dict[str, Any]:
        """The record as it stands in the file."""
        return {
            "step": self.step,
            "title": self.title,
            "ok": self.ok,
            "headline": self.headline(),
            "written": self.written,
            "command": self.command,
            "versions": self.versions,
            "machine": self.machine,
            "results": self.results,
            "properties": [asdict(line) for line in self.lines],
            "tables": [table.as_dict() for table in self.evidence],
            "figures": list(self.figures),
        }

    def _repr_html_(self) -> str:
        rows = [(line.state, line.name, line.figure, line.how) for line in self.lines]
        card = Table(f"{self.title}: what it adds to the report", ("state", "property", "figure", "how"), rows)
        return STYLE + card.html(limit=None) + Table("written", ("file",), [(self.out / f"{self.step}.json",)]).html()


def write(
    out: str | Path,
    step: str,
    *,
    title: str,
    results: Mapping[str, Result],
    figures: Mapping[str, Figure] | None = None,
    command: str | None = None,
) -> StepReport:
    """Write the record of a step, whole or not at all.

    Args:
        out: the directory of the run; made when it is absent.
        step: two digits and a name, the stem of the notebook ("03_layer_parity").
        title: the heading on the page.
        results: what the step answered, by name.
        figures: plots by name, saved as PNG.
        command: the command to give in the report; by default the one that `mindport run` announced.

    Raises:
        UsageError: `step` is not such a name, or there is no result.
        FileError: the disk refuses.
    """
    if not NAME.fullmatch(step):
        raise UsageError("a step is named by two digits and a name", got=step, expected="03_layer_parity")
    if not results:
        raise UsageError("a step without a result has nothing to report", where=step)
    out = Path(out)
    lines = tuple(line for result in results.values() for line in result.properties())
    record = StepReport(
        out=out,
        step=step,
        title=title,
        written=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=command or os.environ.get(COMMAND_VARIABLE) or f"cell by cell, in {step}.ipynb",
        versions=versions(),
        machine=machine(line.backend for line in lines),
        results={name: plain(result.as_dict()) for name, result in results.items()},
        lines=lines,
        evidence=tuple(table for result in results.values() for table in result.tables()),
        figures=_save(out, step, figures or {}),
    )
    write_json(out / f"{step}.json", record.as_dict())
    return record


def read_step(path: Path) -> StepReport:
    """Read a record back.

    Raises:
        FileError: the file is missing, damaged, or is not a record of a step.
    """
    record = read_json(path)
    try:
        step = _from_json(path.parent, record)
        agrees = step.ok is record["ok"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None
    if not agrees:
        raise _damaged(path, f"ok is {record['ok']}, but its results and properties say {step.ok}")
    return step


def _from_json(out: Path, record: dict[str, Any]) -> StepReport:
    names = {field.name for field in fields(StepReport)} - {"out", "lines", "evidence", "figures"}
    if missing := [name for name in sorted(names | {"properties", "tables", "figures"}) if name not in record]:
        raise ValueError(f"no {some(missing)}")
    return StepReport(
        out=out,
        lines=tuple(_property(line) for line in record["properties"]),
        evidence=tuple(Table(**table) for table in record["tables"]),
        figures=tuple(_inside(out, name) for name in record["figures"]),
        **{name: record[name] for name in names},
    )


def _property(record: dict[str, Any]) -> Property:
    line = Property(**record)
    if line.state not in STATES:
        raise ValueError(f"{line.state!r} is not a state of a property")
    return line


def _inside(out: Path, name: str) -> str:
    """`name` when it is a PNG below `out`: a record must not draw another file into the page."""
    path = (out / name).resolve()
    if path.suffix != ".png" or out.resolve() not in path.parents:
        raise ValueError(f"{name!r} is not a plot of this run")
    return name


def _damaged(path: Path, got: str) -> FileError:
    return FileError(
        "the record of a step is damaged", where=path, got=got, do="run the step again, or remove the file"
    )


def _save(out: Path, step: str, figures: Mapping[str, Figure]) -> tuple[str, ...]:
    paths = {f"figures/{step}-{_slug(name)}.png": figure for name, figure in figures.items()}
    if len(paths) < len(figures):
        raise UsageError("two plots have the same file name", where=step, got=some(figures, 9))
    for path, figure in paths.items():
        with atomic_file(out / path) as aside:
            figure.savefig(aside, dpi=DPI, format="png")
    return tuple(paths)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
