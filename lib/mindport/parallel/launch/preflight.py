"""Whether a job can run here, said before it is started: processes, cores, memory, the product of a layout."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass

from mindport.config.constraints import Constraint
from mindport.environment.system import available_memory
from mindport.errors import BackendError, UsageError
from mindport.machine import cores
from mindport.parallel.launch.ports import is_free, port_range
from mindport.results import Result
from mindport.tables import Table

PROCESS = 400 * 2**20  # bytes of a rank that has imported MindSpore and joined; the scheduler and msrun have about half
MOST = 512  # ranks on one machine; beyond that somebody has mistyped


@dataclass(frozen=True)
class Preflight(Result):
    """What was looked at before a start.

    Attributes:
        workers: ranks of the job.
        rows: each pass, warning or failed.
    """

    workers: int
    rows: tuple[Constraint, ...]

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)

    def headline(self) -> str:
        bad = [row.name for row in self.rows if row.state != "pass"]
        can = "can be started" if self.ok else "cannot be started"
        return f"a job of {self.workers} ranks {can}" + (f"; look at: {', '.join(bad)}" if bad else "")

    def tables(self) -> tuple[Table, ...]:
        rows = [(row.name, row.state, row.got, row.expected, row.do) for row in self.rows]
        return (Table("before the start", ("what", "state", "found", "expected", "what to do"), rows),)

    def warnings(self) -> list[str]:
        """What is doubtful, a line each."""
        return [f"{row.name}: {row.got}; {row.do}" for row in self.rows if row.state == "warning"]

    def require(self) -> None:
        """Refuse what cannot work.

        Raises:
            BackendError: this machine cannot launch jobs.
            UsageError: this job cannot be.
        """
        for row in self.rows:
            if not row.ok:
                kind = BackendError if row.name in ("system", "msrun", "ports") else UsageError
                raise kind(f"the job cannot be started: {row.name}", got=row.got, expected=row.expected, do=row.do)


def preflight(workers: int, *, dp: int | None = None, tp: int | None = None) -> Preflight:
    """Look whether a job can run here. What a training's rows, model and memory ask for, `fits` and `estimate` say.

    Args:
        workers: ranks.
        dp, tp: its layout, when it has one.
    """
    found = [_system(), _msrun(), _number(workers)]
    if found[-1].ok:
        found += [_cores(workers), _memory(workers), _ports()]
        if dp is not None or tp is not None:
            found.append(_layout(workers, dp or 1, tp or 1))
    return Preflight(workers, tuple(found))


def _system() -> Constraint:
    return _row("system", sys.platform == "linux", sys.platform, "linux", "launch the job on Linux")


def _msrun() -> Constraint:
    found = importlib.util.find_spec("mindspore") is not None
    return _row("msrun", found, "MindSpore is installed" if found else "MindSpore is not installed", "MindSpore",
                "mindport doctor")  # fmt: skip


def _number(workers: int) -> Constraint:
    return _row("workers", 1 <= workers <= MOST, workers, f"1 to {MOST}",
                "correct --workers, or parallel.dp × parallel.tp")  # fmt: skip


def _cores(workers: int) -> Constraint:
    few = workers > cores()
    return Constraint("cores", "warning" if few else "pass", f"{cores()} for {workers} ranks", "one for each rank",
                      "they take turns: right results, longer times" if few else "")  # fmt: skip


def _memory(workers: int) -> Constraint:
    free, needed = available_memory(), (workers + 1) * PROCESS
    if free is None or free >= needed:
        return Constraint("memory", "pass", "unknown" if free is None else _gib(free), f"about {_gib(needed)}")
    return Constraint("memory", "warning", f"{_gib(free)} free", f"about {_gib(needed)}, and what the script takes",
                      "fewer workers; the kernel kills what finds no memory")  # fmt: skip


def _ports() -> Constraint:
    ports = port_range()
    free = any(map(is_free, ports))
    return _row("ports", free, f"{ports.start} to {ports.stop - 1}{'' if free else ', none free'}", "a free one",
                "end what holds them")  # fmt: skip


def _layout(workers: int, dp: int, tp: int) -> Constraint:
    return _row("layout", dp * tp == workers, f"dp {dp} × tp {tp} = {dp * tp}", f"{workers} workers",
                "make the product the number of workers")  # fmt: skip


def _row(name: str, holds: bool, got: object, expected: str, do: str) -> Constraint:
    return Constraint(name, "pass" if holds else "failed", str(got), expected, "" if holds else do)


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
