"""A worker process, seen from outside: one question at a time, each with its time limit."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from mindport.processes import ending, environment, last_line

COMMAND = (sys.executable, "-W", "ignore", "-m", "mindport.claims.worker")
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOG_v": "4", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
SHOWN = 200  # characters of its last line


class Worker:
    """A process and the folder that it runs in; both are gone after `close`."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="mindport-claims-", ignore_cleanup_errors=True)
        self.log = Path(self.folder.name) / "stderr.txt"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=self.folder.name,
                env={**ENVIRONMENT, **environment()}, start_new_session=True,
                text=True, encoding="utf-8",
            )  # fmt: skip

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: dict[str, str], timeout: float) -> dict[str, Any]:
        """Its answer; {"error": "…"} when it ends or is ended before it gives one."""
        assert self.process.stdin is not None and self.process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(timeout, self._end_late, (late,))
        timer.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line.endswith("\n"):
            return dict(json.loads(line))
        self.kill()
        return {"error": f"no answer within {timeout:g} s" if late.is_set() else self._how_it_ended()}

    def close(self) -> None:
        """End it, and remove its folder."""
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.folder.cleanup()

    def kill(self) -> None:
        """End it, with the processes that its checks started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _end_late(self, late: threading.Event) -> None:
        late.set()
        self.kill()

    def _how_it_ended(self) -> str:
        """By which signal or with which code, and the last line that it said."""
        said = last_line(self.log.read_text(errors="replace"))[:SHOWN]
        return f"the process of the check ended: {ending(self.process.returncode)}" + f"; {said}" * bool(said)
