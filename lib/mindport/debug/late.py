"""Errors that come late: PyNative hands operators to a queue and goes on, so a fault is met on a later line.

Importing `mindport.model` on a CPU switches the queue off (see `model/device.py`), so this is shown in processes of
their own, by `scripts/late_error.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import BackendError
from mindport.processes import last_line
from mindport.results import Result
from mindport.tables import Table

SCRIPT = Path(__file__).parent / "scripts" / "late_error.py"
GUILTY = "ops.swiglu"
TIMEOUT = 120  # seconds


@dataclass(frozen=True)
class Blamed:
    """Which line an error was raised on, as a traceback says it."""

    launch: str
    line: int
    code: str
    message: str

    @property
    def right(self) -> bool:
        return GUILTY in self.code


@dataclass(frozen=True)
class LateErrors(Result):
    """The same program as MindSpore runs it, and with `launch_blocking()`."""

    runs: tuple[Blamed, ...]

    @property
    def ok(self) -> bool:
        """With blocking the guilty line is named."""
        return self.runs[-1].right

    def headline(self) -> str:
        queued, blocking = self.runs
        late = "the guilty line" if queued.right else f"an innocent line, {queued.line}"
        named = "the guilty one" if blocking.right else f"line {blocking.line}"
        return f"as it comes, the traceback names {late}; with launch_blocking() {named}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(run.launch, run.line, run.code, run.message) for run in self.runs]
        return (Table("who is blamed", ("operators are", "line", "code", "message"), rows),)


def late_errors() -> LateErrors:
    """Run the program both ways.

    Raises:
        BackendError: a process gave no answer.
    """
    return LateErrors((_run("queued"), _run("waited for", "blocking")))


def late_program() -> str:
    """The program, as it is run."""
    return SCRIPT.read_text(encoding="utf-8")


def _run(launch: str, *arguments: str) -> Blamed:
    command = [sys.executable, str(SCRIPT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
        answer = json.loads(last_line(done.stdout))
    except subprocess.TimeoutExpired:
        raise _silent(f"nothing in {TIMEOUT} s") from None
    except ValueError:
        raise _silent(last_line(done.stderr) or "nothing") from None
    return Blamed(launch, answer["line"], answer["code"], answer["message"])


def _silent(got: str) -> BackendError:
    return BackendError("the process gave no answer", where=SCRIPT.name, got=got, do="mindport doctor")
