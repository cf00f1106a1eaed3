"""The moments at which a training is killed: drawn beforehand, recognised by what lies in the run's directory."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from mindport.training.checkpoint.checkpoints import PATTERN, step_of
from mindport.training.monitor import read_metrics
from mindport.training.run_directory import RunDirectory
from mindport.training.step_record import StepRecord

TAIL = 4096  # bytes at the end of the metrics, in which the last step is


@dataclass(frozen=True)
class Moment:
    """One of them.

    Attributes:
        aimed: at what, in words.
        has_come: (the run's directory, seconds since the process began, whether it has begun to write) → whether it is
            now.
    """

    aimed: str
    has_come: Callable[[RunDirectory, float, bool], bool]


def moments(times: int, steps: int, start: float, step: float, draw: random.Random) -> list[Moment]:
    """So many moments: the first as the text is tokenised, then a quarter before a first step, a quarter in writes, and
    the rest in steps, which are spread over the run.

    Args:
        times: moments.
        steps: of the run.
        start: seconds that a process takes to its first step.
        step: seconds of a step.
        draw: the source of chance.
    """
    early = [_starting(draw.uniform(0.2, 1.0) * start) for _ in range(times // 4)]
    late = times - 1 - len(early) if times > 1 else 0
    targets = sorted(draw.uniform(0.02, 0.9) * steps for _ in range(late))
    kinds = draw.sample(["write"] * (late // 3) + ["step"] * (late - late // 3), late)
    placed = [_writing(int(target)) if kind == "write" else _stepping(int(target), draw.uniform(0, 1.5) * step)
              for kind, target in zip(kinds, targets, strict=True)]  # fmt: skip
    for moment in early:
        placed.insert(draw.randint(0, len(placed)), moment)
    return [Moment("the text", lambda run, lived, writes: is_tokenising(run)), *placed]


def last_step(run: RunDirectory) -> int:
    """The last step that is recorded; 0: none."""
    try:
        with run.metrics.open("rb") as file:
            file.seek(max(0, run.metrics.stat().st_size - TAIL))
            lines = file.read().split(b"\n")[:-1]
    except OSError:
        return 0
    return max((_step(line) for line in lines), default=0)


def newest(run: RunDirectory) -> int:
    """The step of the newest checkpoint; 0: none."""
    found = (path for path in run.checkpoints.glob("step-*") if PATTERN.fullmatch(path.name))
    return max(map(step_of, found), default=0)


def is_writing(run: RunDirectory) -> bool:
    """Whether a checkpoint is being written, or was when the process died."""
    return any(run.checkpoints.glob(".step-*.part"))


def is_tokenising(run: RunDirectory) -> bool:
    """Whether the text is being prepared, or is ready."""
    return run.data.is_dir()


def step_seconds(run: RunDirectory) -> float:
    """Seconds of a step of a finished run, the median of those that compiled nothing."""
    steps = [event for event in read_metrics(run.metrics) if isinstance(event, StepRecord)]
    return statistics.median([record.seconds for record in steps if not record.compiled] or [0.0])


def writer(run: RunDirectory) -> int:
    """A number that changes when a process has cleaned the directory up and begins to write; 0 before the first."""
    return run.metrics.stat().st_ino if run.metrics.exists() else 0


class _OwnSteps:
    """Whether the process has recorded a step of its own; what was there when it began to write is of earlier ones."""

    def __init__(self) -> None:
        self.before: int | None = None

    def __call__(self, run: RunDirectory, writes: bool, least: int = 0) -> bool:
        if writes and self.before is None:
            self.before = last_step(run)
        return self.before is not None and last_step(run) > max(least - 1, self.before)


def _starting(seconds: float) -> Moment:
    """After a time, but not after the first step."""
    own = _OwnSteps()
    return Moment("the start", lambda run, lived, writes: lived >= seconds or own(run, writes))


def _stepping(step: int, delay: float) -> Moment:
    """Some time after a step, which is one that this process takes."""
    own, seen = _OwnSteps(), list[float]()

    def has_come(run: RunDirectory, lived: float, writes: bool) -> bool:
        if not seen and own(run, writes, step):
            seen.append(lived)
        return bool(seen) and lived >= seen[0] + delay

    return Moment(f"step {max(1, step)}", has_come)


def _writing(step: int) -> Moment:
    """As a checkpoint is written."""
    return Moment(f"a write from step {step} on",
                  lambda run, lived, writes: writes and last_step(run) >= step and is_writing(run))  # fmt: skip


def _step(line: bytes) -> int:
    """Of a line of the metrics; 0 where the line begins before what was read."""
    try:
        event = json.loads(line)
    except ValueError:
        return 0
    return event["step"] if event.get("event") == "step" else 0
