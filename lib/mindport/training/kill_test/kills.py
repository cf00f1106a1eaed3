"""The undisturbed run, the kills, and what they show."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mindport import processes
from mindport.errors import BackendError, UsageError
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.config import TrainConfig, read_config
from mindport.training.kill_test.comparison import Comparison, compare_runs
from mindport.training.kill_test.moments import Moment, is_writing, last_step, moments, newest, step_seconds, writer
from mindport.training.run_directory import RunDirectory

POLL = 0.002  # seconds
PATIENCE = 600  # seconds that one process may take until its moment


@dataclass(frozen=True)
class Kill:
    """One of them.

    Attributes:
        aimed: at what.
        seconds: that the process had lived.
        step: the last one that it had recorded.
        checkpoint: the newest one that was whole when it died; 0: none.
        torn: whether one was being written.
        hit: False where the process ended by itself before its moment came.
    """

    aimed: str
    seconds: float
    step: int
    checkpoint: int
    torn: bool
    hit: bool


@dataclass(frozen=True)
class KillReport(Result):
    """Whether a training that was killed is the training that was not.

    Attributes:
        kills: in order.
        comparison: of the two runs.
        mode: of execution.
        steps: of the run.
        device: what computed.
    """

    kills: tuple[Kill, ...]
    comparison: Comparison
    mode: str
    steps: int
    device: str

    @property
    def ok(self) -> bool:
        return self.comparison.ok and bool(self._hits())

    def headline(self) -> str:
        torn = sum(kill.torn for kill in self._hits())
        return (f"killed {len(self._hits())} times in {self.steps} steps ({self.mode}), {torn} times in a write: "
                f"{self.comparison.headline()}")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [(i, kill.aimed, kill.seconds, kill.step, kill.checkpoint, kill.torn, kill.hit)
                for i, kill in enumerate(self.kills, 1)]  # fmt: skip
        columns = ("kill", "aimed at", "after / s", "last step", "newest checkpoint", "one in writing", "hit")
        return Table("kills", columns, rows), *self.comparison.tables()

    def properties(self) -> tuple[Property, ...]:
        how = f"SIGKILL at {len(self._hits())} moments of {self.steps} steps in {self.mode} mode, resumed each time"
        return (verdict("a training that is killed and resumed is equal to one that is not, bit for bit", self.ok, how,
                        self.comparison.headline(), self.device),)  # fmt: skip

    def _hits(self) -> list[Kill]:
        return [kill for kill in self.kills if kill.hit]


def kill_test(config: Path | str, out: Path, *, times: int = 20, seed: int = 0, settings: Sequence[str] = (),
              say: Callable[[str], None] = lambda text: None) -> KillReport:  # fmt: skip
    """Run a training undisturbed, then disturbed, and compare.

    Args:
        config: of the training.
        out: a folder for both; `reference` and `killed` are made in it.
        times: kills.
        seed: of the moments.
        settings: changes of the configuration.
        say: is told what happens.

    Raises:
        UsageError: there are too few steps for so many kills, or no checkpoints in between.
        BackendError: a process fails that nobody killed.
    """
    told = read_config(config, settings)
    _check(told, times)
    reference, killed = (RunDirectory((out / name).absolute()) for name in ("reference", "killed"))
    for directory in (reference, killed):
        directory.check_free(resume=False, overwrite=False)
    say("the undisturbed run")
    start = _undisturbed(config, settings, reference)
    kills = []
    for moment in moments(times, told.steps, start, step_seconds(reference), random.Random(seed)):
        kills.append(_kill(config, settings, killed, moment))
        say(f"kill {len(kills)}, {kills[-1].aimed}: last step {kills[-1].step}, checkpoint {kills[-1].checkpoint}")
    say("the last resume")
    with _training(config, settings, killed) as process:
        _wait(process, killed)
    device = json.loads(reference.report.read_text(encoding="utf-8"))["device"]
    return KillReport(tuple(kills), compare_runs(reference, killed), told.mode, told.steps, device)


def _check(config: TrainConfig, times: int) -> None:
    if times < 1 or not 0 < config.checkpoints.every * 2 <= config.steps:
        raise UsageError("nothing could be resumed", got=f"{times} kills, {config.steps} steps, a checkpoint every "
                         f"{config.checkpoints.every}", expected="1 kill or more, and two checkpoints in the run",
                         do="--set checkpoints.every=3")  # fmt: skip


@contextmanager
def _training(config: Path | str, settings: Sequence[str], run: RunDirectory) -> Iterator[subprocess.Popen]:
    """The process; killed, if it is left alive."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "mindport", "train", str(config), "--resume", "--out", str(run.path), *words]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=processes.environment())
        try:
            yield process
            if process.poll() not in (None, 0, -signal.SIGKILL):
                log.seek(0)
                raise BackendError("a training failed that nobody killed", where=run.path,
                                   got=processes.last_line(log.read().decode(errors="replace")))  # fmt: skip
        finally:
            process.kill()
            process.wait()


def _undisturbed(config: Path | str, settings: Sequence[str], run: RunDirectory) -> float:
    """Seconds from the start to the first step."""
    began = time.monotonic()
    with _training(config, settings, run) as process:
        while process.poll() is None and last_step(run) < 1:
            time.sleep(POLL)
        first = time.monotonic() - began
        _wait(process, run)
    return first


def _wait(process: subprocess.Popen, run: RunDirectory) -> None:
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        raise BackendError("a training takes too long", where=run.path, got=f"{PATIENCE} s",
                           do="give it fewer steps") from None  # fmt: skip


def _kill(config: Path | str, settings: Sequence[str], run: RunDirectory, moment: Moment) -> Kill:
    began, earlier = time.monotonic(), writer(run)
    with _training(config, settings, run) as process:
        while process.poll() is None and not moment.has_come(run, time.monotonic() - began, writer(run) != earlier):
            time.sleep(POLL)
        hit, lived = process.poll() is None, time.monotonic() - began
        process.kill()
        process.wait()
    torn = writer(run) != earlier and is_writing(run)
    return Kill(moment.aimed, lived, last_step(run), newest(run), torn, hit)
