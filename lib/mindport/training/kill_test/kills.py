"""The undisturbed run, the kills, and what they show."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import UsageError
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.config import TrainConfig, read_config
from mindport.training.kill_test.comparison import Comparison, compare_runs
from mindport.training.kill_test.moments import Moment, is_writing, last_step, moments, newest, step_seconds, writer
from mindport.training.kill_test.process import ONE, Training, layout_of
from mindport.training.run_directory import RunDirectory

POLL = 0.002  # seconds
Victims = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Kill:
    """One of them.

    Attributes:
        aimed: at what.
        victim: which process was killed: the one that was started, or a rank, or all of them at once.
        seconds: that the process had lived.
        step: the last one that it had recorded.
        checkpoint: the newest one that was whole when it died; 0: none.
        torn: whether one was being written.
        hit: False where the process ended by itself before its moment came.
    """

    aimed: str
    victim: str
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
        layout: over which processes.
        steps: of the run.
        device: what computed.
    """

    kills: tuple[Kill, ...]
    comparison: Comparison
    mode: str
    layout: str
    steps: int
    device: str

    @property
    def ok(self) -> bool:
        return self.comparison.ok and bool(self._hits())

    def headline(self) -> str:
        torn = sum(kill.torn for kill in self._hits())
        how = f"{self.mode}, {self.layout}"
        return (f"killed {len(self._hits())} times in {self.steps} steps ({how}), {torn} times in a write: "
                f"{self.comparison.headline()}")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [(i, kill.aimed, kill.victim, kill.seconds, kill.step, kill.checkpoint, kill.torn, kill.hit)
                for i, kill in enumerate(self.kills, 1)]  # fmt: skip
        columns = ("kill", "aimed at", "killed", "after / s", "last step", "newest checkpoint", "one in writing", "hit")
        return Table("kills", columns, rows), *self.comparison.tables()

    def properties(self) -> tuple[Property, ...]:
        how = f"SIGKILL at {len(self._hits())} moments of {self.steps} steps in {self.mode} mode, resumed each time"
        how += "" if self.layout == ONE else f"; {self.layout}, each time a rank, the launcher or all of them"
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
    kills, draw = [], random.Random(seed)
    drawn = moments(times, told.steps, start, step_seconds(reference), draw)
    for moment, victims in zip(drawn, _victims(told, times, draw), strict=True):
        kills.append(_kill(config, settings, killed, moment, victims))
        last = kills[-1]
        say(f"kill {len(kills)}, {last.victim}, {last.aimed}: last step {last.step}, checkpoint {last.checkpoint}")
    say("the last resume")
    with Training(config, settings, killed) as training:
        training.wait()
    device = json.loads(reference.report.read_text(encoding="utf-8"))["device"]
    return KillReport(tuple(kills), compare_runs(reference, killed), told.mode, layout_of(told), told.steps, device)


def _victims(config: TrainConfig, times: int, draw: random.Random) -> list[Victims]:
    """Which processes each kill is for, each choice about as often: a name, and the ranks; none of them for the process
    that was started."""
    every = tuple(range(config.parallel.dp * config.parallel.tp))
    if len(every) == 1:
        return [("the process", ())] * times
    choices: list[Victims] = [
        ("the launcher", ()),
        *((f"rank {rank}", (rank,)) for rank in every),
        ("all ranks", every),
    ]
    rounds = [draw.sample(choices, len(choices)) for _ in range(-(-times // len(choices)))]
    return [victims for one in rounds for victims in one][:times]


def _check(config: TrainConfig, times: int) -> None:
    if times < 1 or not 0 < config.checkpoints.every * 2 <= config.steps:
        raise UsageError("nothing could be resumed", got=f"{times} kills, {config.steps} steps, a checkpoint every "
                         f"{config.checkpoints.every}", expected="1 kill or more, and two checkpoints in the run",
                         do="--set checkpoints.every=3")  # fmt: skip


def _undisturbed(config: Path | str, settings: Sequence[str], run: RunDirectory) -> float:
    """Seconds from the start to the first step."""
    began = time.monotonic()
    with Training(config, settings, run) as training:
        while training.process.poll() is None and last_step(run) < 1:
            time.sleep(POLL)
        first = time.monotonic() - began
        training.wait()
    return first


def _kill(
    config: Path | str, settings: Sequence[str], run: RunDirectory, moment: Moment, victims: Victims
) -> Kill:  # fmt: skip
    began, earlier = time.monotonic(), writer(run)
    name, numbers = victims
    with Training(config, settings, run) as training:
        process = training.process
        while process.poll() is None and not moment.has_come(run, time.monotonic() - began, writer(run) != earlier):
            time.sleep(POLL)
        hit, lived = process.poll() is None, time.monotonic() - began
        if not training.kill(numbers) and numbers:
            name = "the launcher, for there was no rank yet"
    torn = writer(run) != earlier and is_writing(run)
    return Kill(moment.aimed, name, lived, last_step(run), newest(run), torn, hit)
