"""A training as `mindport train` runs it, with the processes that it starts."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mindport import processes
from mindport.errors import BackendError
from mindport.mindformers import Layout
from mindport.training.config import TrainConfig
from mindport.training.kill_test.victims import TOKEN, end, ranks, wait_for_the_end
from mindport.training.run_directory import RunDirectory

PATIENCE = 600  # seconds that one process may take
ONE = "one process"


def layout_of(config: TrainConfig) -> str:
    """Over which processes a training goes."""
    told = config.parallel
    return ONE if told.dp * told.tp == 1 else Layout(dp=told.dp, tp=told.tp).degrees


class Training:
    """A process that trains, with those that it starts; killed, if it is left alive."""

    def __init__(self, config: Path | str, settings: Sequence[str], run: RunDirectory) -> None:
        words = [word for setting in settings for word in ("--set", setting)]
        command = [sys.executable, "-m", "mindport", "train", str(config), "--resume", "--out", str(run.path), *words]
        self.run, self.token, self.was_killed = run, secrets.token_hex(8), False
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.log,
                                        env=processes.environment(**{TOKEN: self.token}))  # fmt: skip

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        code = self.process.poll()
        self.process.kill()
        self.process.wait()
        end(self.token)
        self.log.seek(0)
        said = processes.last_line(self.log.read().decode(errors="replace"))
        self.log.close()
        if code not in (None, 0) and not self.was_killed:
            raise BackendError("a training failed that nobody killed", where=self.run.path, got=said)

    def kill(self, victims: Sequence[int]) -> bool:
        """Kill some ranks, or the process that was started, and wait until nothing is left; whether a rank was killed.

        Where none of them runs yet it is the process.
        """
        running = ranks(self.token)
        found = [running[rank] for rank in victims if rank in running]
        self.was_killed = True
        for pid in found or [self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()
        wait_for_the_end(self.token, self.run.path)
        return bool(found)

    def wait(self) -> None:
        """Until the process that was started has ended.

        Raises:
            BackendError: it does not.
        """
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise BackendError("a training takes too long", where=self.run.path, got=f"{PATIENCE} s",
                               do="give it fewer steps") from None  # fmt: skip
