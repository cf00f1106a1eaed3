"""MindSpore's profiler on one compiled training step: which operators take the time, and where the step is idle.

The profiler leaves `cpu_op_type_info_0.csv` (a row an operator type) and `trace_view.json` (an event an operator
call, for chrome://tracing or Perfetto). Both are read here into tables; the trace is kept where it is asked for.
"""

from __future__ import annotations

import csv
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.errors import BackendError
from mindport.files import atomic_file
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tuning.isolated import isolated
from mindport.tuning.workload import cut_model

STEPS = 3
TIMELINE = "figures/07-timeline.json"  # below the run
TOP = 12  # operator types shown
TYPES, TRACE, LANE = "cpu_op_type_info_0.csv", "trace_view.json", "CPU OP"
BACKWARD, OPTIMIZER = "Gradients/", "optimizer-"


@dataclass(frozen=True)
class Operator:
    """All calls of one operator type in a step: how many, milliseconds, share of all operators' time."""

    name: str
    calls: float
    milliseconds: float
    share: float


@dataclass(frozen=True)
class Part:
    """One part of the step's timeline, in a step: operator calls, milliseconds, share of the wall time."""

    name: str
    calls: float
    milliseconds: float
    share: float


@dataclass(frozen=True)
class Profile(Result):
    """Operators by time, and the timeline by part.

    Attributes:
        workload: in words.
        operators: dearest first.
        parts: forward, backward, optimizer, and idle.
        trace: the timeline's file.
    """

    workload: str
    operators: tuple[Operator, ...]
    parts: tuple[Part, ...]
    trace: Path

    @property
    def ok(self) -> bool:
        """Whether the profiler saw the products that the step is made of."""
        return any("MatMul" in operator.name or "gemm" in operator.name.lower() or "linear" in operator.name.lower()
                   for operator in self.operators) and len(self.parts) > 1  # fmt: skip

    def headline(self) -> str:
        first, *_ = self.operators
        parts = ", ".join(f"{part.name} {part.share:.0%}" for part in self.parts)
        return f"{first.name} takes {first.share:.0%} of the operators' time; of the step: {parts}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(o.name, f"{o.calls:g}", f"{o.milliseconds:.3g}", f"{o.share:.0%}") for o in self.operators[:TOP]]
        parts = [(p.name, f"{p.calls:g}", f"{p.milliseconds:.3g}", f"{p.share:.0%}") for p in self.parts]
        return (
            Table(f"operators by time, a step of {self.workload}", ("operator", "calls", "ms", "share"), rows),
            Table("the timeline by part", ("part", "calls", "ms", "of the step"), parts),
        )

    def properties(self) -> tuple[Property, ...]:
        how = f"mindspore.profiler on a compiled training step; {self.workload}; the trace: {self.trace.name}"
        return (verdict("the profiler's ranking and timeline are read", self.ok, how, self.headline(), "CPU"),)


def profile_step(directory: Path | str, size: str, out: Path | str, allow: Sequence[str] = ()) -> Profile:
    """Profile the training step of the cut model in its best form.

    Args:
        directory, size, allow: as for the ladder.
        out: the run, where the trace is left (`TIMELINE`).

    Raises:
        BackendError: the process failed, or the profiler left no trace.
    """
    cut, trace = cut_model(directory, size, allow), Path(out) / TIMELINE
    with tempfile.TemporaryDirectory(prefix="mindport-profile-") as folder:
        isolated(measure, cut.settings(), folder)
        operators = read_types(_one(Path(folder), TYPES))
        parts = read_trace(_one(Path(folder), TRACE))
        trace.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(trace) as aside:
            shutil.copyfile(_one(Path(folder), TRACE), aside)
    return Profile(cut.name, operators, parts, trace)


def measure(settings: dict[str, Any], folder: str) -> None:
    """Some steps under the profiler; run in a process of its own."""
    import mindspore.profiler as ms_profiler

    from mindport.tuning.forms import step

    built = step(**settings)
    built.run()
    handler = ms_profiler.tensorboard_trace_handler(folder)
    activities = [ms_profiler.ProfilerActivity.CPU]
    with ms_profiler.profile(activities=activities, on_trace_ready=handler) as running:
        for _ in range(STEPS):
            built.run()
            running.step()


def read_types(path: Path) -> tuple[Operator, ...]:
    """The operator types of a profile, dearest first, for one step."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [(row["op_type"], int(row["type_occurrences"]), float(row["total_compute_time"]))
                for row in csv.DictReader(file)]  # fmt: skip
    total = sum(milliseconds for _, _, milliseconds in rows)
    found = (Operator(name, calls / STEPS, ms / STEPS, ms / total) for name, calls, ms in rows)
    return tuple(sorted(found, key=lambda operator: -operator.milliseconds))


def read_trace(path: Path) -> tuple[Part, ...]:
    """The parts of the timeline and what is left idle between operators, for one step."""
    events = json.loads(path.read_text(encoding="utf-8"))
    lanes = {event["pid"] for event in events if event["ph"] == "M" and event.get("args", {}).get("name") == LANE}
    calls = [(event["name"], float(event["ts"]), float(event["dur"])) for event in events
             if event["ph"] == "X" and event["pid"] in lanes]  # fmt: skip
    if not calls:
        raise BackendError("the profiler's timeline has no operators", where=path)
    wall = max(start + length for _, start, length in calls) - min(start for _, start, _ in calls)  # microseconds
    counts, lengths = Counter(_part(name) for name, _, _ in calls), Counter[str]()
    for name, _, length in calls:
        lengths[_part(name)] += length
    parts = [Part(name, counts[name] / STEPS, length / STEPS / 1e3, length / wall) for name, length in lengths.items()]
    idle = max(0.0, wall - sum(lengths.values()))
    return (*sorted(parts, key=lambda part: -part.share), Part("idle", 0, idle / STEPS / 1e3, idle / wall))


def _part(name: str) -> str:
    if name.startswith(BACKWARD):
        return "backward"
    return "optimizer" if OPTIMIZER in name else "forward"


def _one(folder: Path, name: str) -> Path:
    found = sorted(folder.rglob(name))
    if len(found) != 1:
        raise BackendError(
            "the profiler did not leave the file that is read", where=folder, got=len(found), expected=name
        )
    return found[0]
