"""Two runs held together: every number that was recorded, every array of the last checkpoint, bit for bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindport.errors import FileError
from mindport.results import Result
from mindport.tables import Table
from mindport.training.checkpoint import Saved, read_checkpoint
from mindport.training.monitor import Evaluation, Pace, Sample, read_metrics
from mindport.training.run_directory import RunDirectory
from mindport.training.step_record import StepRecord

TIMED = {"seconds", "compiled"}  # a matter of the process, not of the training


@dataclass(frozen=True)
class Comparison(Result):
    """What differs between two runs.

    Attributes:
        steps: that both took.
        measurements: on held-out text and samples, that both made.
        arrays: of the last checkpoint: weights, optimizer and the rest.
        differences: in words; none where the runs are equal.
    """

    steps: int
    measurements: int
    arrays: int
    differences: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.differences and self.steps > 0 and self.arrays > 0

    def headline(self) -> str:
        if self.differences:
            return f"{len(self.differences)} differences, first: {self.differences[0]}"
        return (f"all of {self.steps} steps, {self.measurements} measurements and {self.arrays} final arrays are equal "
                "bit for bit")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        return (Table("differences", ("what",), [(each,) for each in self.differences]),) if self.differences else ()


def compare_runs(a: RunDirectory, b: RunDirectory) -> Comparison:
    """Compare what two finished runs recorded, and their last checkpoints.

    Raises:
        FileError: one of them has no metrics or no checkpoint, or a damaged one.
    """
    steps = [_numbers(run, StepRecord) for run in (a, b)]
    measured = [{**_numbers(run, Evaluation), **_numbers(run, Sample)} for run in (a, b)]
    saved = [_last(run) for run in (a, b)]
    arrays = [{**_arrays("weight", each.weights), **_arrays("state", each.state)} for each in saved]
    differences = [*_differences("step", *steps), *_differences("measurement", *measured),
                   *_differences("array", *arrays),
                   *_differences("checkpoint", *({"step": s.step, **s.about.position} for s in saved))]  # fmt: skip
    return Comparison(len(steps[0]), len(measured[0]), len(arrays[0]), tuple(differences))


def _numbers(run: RunDirectory, kind: type) -> dict[str, Any]:
    """Event → its fields that are no times. What stands there twice counts as another event."""
    found: dict[str, Any] = {}
    for event in read_metrics(run.metrics):
        if type(event) is kind and not isinstance(event, Pace):
            name = f"{kind.__name__} {event.step}" + (f" {event.prompt}" if isinstance(event, Sample) else "")
            name += " again" * (name in found)
            found[name] = repr({k: v for k, v in dataclasses.asdict(event).items() if k not in TIMED})
    return found


def _last(run: RunDirectory) -> Saved:
    paths = sorted(run.checkpoints.glob("step-*"))
    if not paths:
        raise FileError("the run has no checkpoint", where=run.checkpoints)
    return read_checkpoint(paths[-1])


def _arrays(kind: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {
        f"{kind} {name}": (str(x.dtype), x.shape, x.tobytes()) for name in arrays for x in [np.asarray(arrays[name])]
    }


def _differences(kind: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[str]:
    for name in {**a, **b}:
        if name not in a or name not in b:
            yield f"{kind} {name} is in {'the second' if name in b else 'the first'} run only"
        elif a[name] != b[name]:
            told = f": {a[name]} and {b[name]}" if isinstance(a[name], (str, int)) else ""
            yield f"{kind} {name} differs{told}"
