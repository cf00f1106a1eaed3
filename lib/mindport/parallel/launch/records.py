"""What each rank writes down of itself, a file for each fact, whole or not at all; the launcher reads them.

rank_0.started.json   by the rank: its process, and the one that waits for it
rank_0.said.json      by the rank: what the script came to, and what it returned or raised
rank_0.ended.json     by the process that waits: with which code or signal the rank ended
scheduler.*.json      the first and the third, of MindSpore's scheduler
rank_0.stack          by the rank, when it is asked with a signal: where it is
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from mindport.files import write_json

FOLDER, JOB = "ranks", "job.json"
Record = TypeVar("Record", "Started", "Said", "Ended")


@dataclass(frozen=True)
class Started:
    """The processes of a rank.

    Attributes:
        pid: of the rank.
        keeper: of the process that waits for it.
        at: seconds since the epoch, as in the other records.
    """

    pid: int
    keeper: int
    at: float


@dataclass(frozen=True)
class Said:
    """What the script came to.

    Attributes:
        code: that the rank means to exit with.
        at: when.
        log: bytes of its log that were written before.
        peak: bytes of memory that it held at most, until then.
        returned: it was a function, and here is its answer.
        result: what the function returned, of `call`.
        error: name and message of what was raised; empty when nothing was.
        traceback: of the script's own frames.
        refusal: the parts of a MindPortError.
    """

    code: int
    at: float
    log: int
    peak: int = 0
    returned: bool = False
    result: Any = None
    error: str = ""
    traceback: str = ""
    refusal: dict[str, Any] | None = None


@dataclass(frozen=True)
class Ended:
    """How the process ended.

    Attributes:
        code: its exit code, negative where a signal ended it.
        at: when.
        peak: bytes of memory that it held at most.
    """

    code: int
    at: float
    peak: int


def path(folder: Path, rank: int | None, kind: type) -> Path:
    """Where a rank's record of this kind is; the scheduler, which is none, has some as well."""
    name = "scheduler" if rank is None else f"rank_{rank}"
    return folder / FOLDER / f"{name}.{kind.__name__.lower()}.json"


def stack_path(folder: Path, rank: int) -> Path:
    """Where a rank writes its stack to."""
    return folder / FOLDER / f"rank_{rank}.stack"


def write(folder: Path, rank: int | None, record: Started | Said | Ended) -> None:
    """Write a record down."""
    write_json(path(folder, rank, type(record)), asdict(record))


def read(folder: Path, rank: int | None, kind: type[Record]) -> Record | None:
    """A rank's record of this kind, when it is there."""
    with contextlib.suppress(FileNotFoundError):
        return kind(**json.loads(path(folder, rank, kind).read_text(encoding="utf-8")))
    return None


def log_path(folder: Path, rank: int | None) -> Path:
    """Where msrun sends what a rank prints, or the scheduler."""
    return folder / ("scheduler.log" if rank is None else f"worker_{rank}.log")


def clear(folder: Path, workers: int) -> None:
    """Remove the records and logs of an attempt that came to nothing."""
    for rank in (None, *range(workers)):
        files = [path(folder, rank, kind) for kind in (Started, Said, Ended)]
        files += [log_path(folder, rank), *([] if rank is None else [stack_path(folder, rank)])]
        for file in files:
            file.unlink(missing_ok=True)
