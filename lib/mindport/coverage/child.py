"""A process of its own for whatever imports a framework or a user's module; its words never reach our stdout."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from mindport.processes import ending, environment, last_line

QUIET = {"GLOG_v": "3", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8:backslashreplace", "HF_HUB_OFFLINE": "1"}
TAIL, SHOWN = 4000, 200  # bytes of its words, characters of the last line


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, None when its time was over, and the end of what it said."""

    code: int | None
    said: str

    def reason(self) -> str:
        """In one line."""
        if self.code is None:
            return "no answer in time"
        said = last_line(self.said)[:SHOWN] if self.code > 0 else ""  # what stands before a signal is not of it
        return ending(self.code) + f": {said}" * bool(said)


def run(module: str, *arguments: str, timeout: float, folder: Path | None = None) -> Ended:
    """Run `python -m module arguments` to its end, or to the end of its time, with all that it started.

    Args:
        module: the module to run.
        arguments: its command line.
        timeout: seconds.
        folder: the working directory; MindSpore leaves files where it fails.
    """
    environ = {"OMP_NUM_THREADS": "1", **environment(**QUIET)}
    with tempfile.TemporaryFile() as said:  # a file and no pipe: a grandchild that lives on must not hold us
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environ,
            cwd=folder, start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(max(0, said.seek(0, os.SEEK_END) - TAIL))
        return Ended(code, said.read().decode("utf-8", "replace"))
