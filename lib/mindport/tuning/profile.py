"""MindSpore's profiler on one compiled training step: which operators take the time, and where the step is idle.

The profiler leaves `trace_view.json`, an event an operator call, for chrome://tracing or Perfetto. It is read here into
two tables, and kept where it is asked for. The names of its events are paths through the cells of the model.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
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
TRACE, LANE = "trace_view.json", "CPU OP"
BACKWARD, FORWARD = "Gradients/", "loss-"  # how an operator's path begins, and the cell that it leads through
KERNEL = re.compile(r"(\w+)-Cpu")  # a cell of ours that is computed in C++
CUSTOM = "Custom"


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
        """Whether the profiler saw operators of a training step: a forward and a backward pass."""
        return bool(self.operators) and {"forward", "backward"} <= {part.name for part in self.parts}

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
        calls, wall = read_calls(_one(Path(folder), TRACE))
        trace.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(trace) as aside:
            shutil.copyfile(_one(Path(folder), TRACE), aside)
    return Profile(cut.name, by_operator(calls), by_part(calls, wall), trace)


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


def read_calls(path: Path) -> tuple[list[tuple[str, float]], float]:
    """Path and milliseconds of every operator call of a timeline, and the wall time from the first to the last.

    Raises:
        BackendError: there is none.
    """
    events = json.loads(path.read_text(encoding="utf-8"))
    lanes = {event["pid"] for event in events if event["ph"] == "M" and event.get("args", {}).get("name") == LANE}
    calls = [(event["name"], float(event["ts"]), float(event["dur"])) for event in events
             if event["ph"] == "X" and event["pid"] in lanes]  # fmt: skip
    if not calls:
        raise BackendError("the profiler's timeline has no operators", where=path)
    begin, end = min(start for _, start, _ in calls), max(start + length for _, start, length in calls)
    return [(name, length / 1e3) for name, _, length in calls], (end - begin) / 1e3


def by_operator(calls: Sequence[tuple[str, float]]) -> tuple[Operator, ...]:
    """Operator types of one step, dearest first; C++ kernels apart, by the cell that calls them."""
    counts, lengths = _grouped(calls, _operator)
    total = sum(lengths.values())
    return tuple(Operator(n, counts[n] / STEPS, ms / STEPS, ms / total) for n, ms in lengths.most_common())


def by_part(calls: Sequence[tuple[str, float]], wall: float) -> tuple[Part, ...]:
    """Forward, backward and optimizer of one step, and what is left idle between operators."""
    counts, lengths = _grouped(calls, _part)
    parts = [Part(name, counts[name] / STEPS, ms / STEPS, ms / wall) for name, ms in lengths.most_common()]
    idle = max(0.0, wall - sum(lengths.values()))
    return (*parts, Part("idle", 0, idle / STEPS, idle / wall))


def _grouped(calls: Sequence[tuple[str, float]], group: Callable[[str], str]) -> tuple[Counter[str], Counter[str]]:
    """Calls, and milliseconds, of each group."""
    counts, lengths = Counter[str](), Counter[str]()
    for name, length in calls:
        counts[group(name)] += 1
        lengths[group(name)] += length
    return counts, lengths


def _operator(path: str) -> str:
    kind = path.rsplit("/", 1)[-1].split("-op")[0]
    cells = KERNEL.findall(path)
    return f"{kind}: {cells[-1] if cells else 'optimizer'}" if kind == CUSTOM else kind


def _part(path: str) -> str:
    if path.startswith(BACKWARD):
        return "backward"
    return "forward" if FORWARD in path else "optimizer"


def _one(folder: Path, name: str) -> Path:
    found = sorted(folder.rglob(name))
    if len(found) != 1:
        raise BackendError(
            "the profiler did not leave the file that is read", where=folder, got=len(found), expected=name
        )
    return found[0]
