"""The report card: every property of a run, with its state; what was not done is on it too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mindport.errors import FileError
from mindport.files import read_json
from mindport.report.step import STATES, StepReport, read_step
from mindport.results import Property, Result
from mindport.tables import Table

STEPS = {
    "00_environment_check": "the packages, the compiler and the devices of this machine do what MindPort needs",
    "01_config_mapping": "every key of config.json is mapped, derived, harmless or refused",
    "02_weight_conversion": "every tensor is converted once, and back to the same bytes",
    "03_layer_parity": "each submodule, the logits and the gradients agree with transformers",
    "04_pynative_debug": "every value is finite, the loss falls in a few steps, and the two modes differ as described",
    "05_graph_training": "every step of a training is PyTorch's, and one that is killed and resumed is the same run",
    "06_parallel_scaling": "a training over several processes is that of one, whichever of them breaks on the way",
    "07_tuning": "each rung of the optimisation ladder computes the same as the one below it",
}
RUN = "run.json"  # what `mindport run` did: command, model, size, and how each notebook ended

Group = tuple[str, tuple[Property, ...]]

NO_ASCEND = "nothing on this page was run on an Ascend NPU"
ASCEND = {  # promise: how the line begins that keeps it
    "the model gives the same logits on an Ascend NPU": "logits agree",
    "the fused Ascend operators agree with the plain ones (attention, RMS norm, rotary positions, SwiGLU, GELU, cross "
    "entropy, AdamW)": "fused operators agree",
    "float16 and bfloat16 hold their limits on Ascend": "low precision agrees",
    "a training over several NPUs is that of one": "a training under",
    "the YAML, the script and the commands of `mindport plan --out` start a training on a cluster": "a cluster starts",
}


@dataclass(frozen=True)
class Report(Result):
    """The records of a run, and the card made of them.

    Attributes:
        out: the directory of the run.
        steps: the records found, in order.
        run: the record of `mindport run` (command, model, size, notebooks); empty when cells were run by hand.
    """

    out: Path
    steps: tuple[StepReport, ...]
    run: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Something was verified, and nothing failed."""
        counts = self.counts()
        return counts["verified"] > 0 and counts["failed"] == 0 and all(step.ok for step in self.steps)

    def headline(self) -> str:
        if not self.steps:
            return "nothing was verified: no step has left a record" + self._failures()
        counts = ", ".join(f"{number} {state}" for state, number in self.counts().items())
        return f"{counts}; device: {self.device()}" + self._failures()

    def properties(self) -> tuple[Property, ...]:
        return tuple(line for _, lines in self.groups() for line in lines)

    def groups(self) -> list[Group]:
        """The card by step: first what was run, in order, then what was not."""
        ran: list[Group] = [
            (f"{step.step[:2]} {step.title}", step.lines + tuple(self._stopped(step))) for step in self.steps
        ]
        missing: list[Group] = [(f"{_titled(name)}: no record", (self._missing(name),)) for name in self._unrecorded()]
        return [*sorted(ran + missing, key=lambda group: group[0]), ("Ascend", tuple(self._ascend()))]

    def counts(self) -> dict[str, int]:
        """How many properties are in each state."""
        states = [line.state for line in self.properties()]
        return {state: states.count(state) for state in STATES}  # type: ignore[arg-type]

    def device(self) -> str:
        """The devices that the steps ran on."""
        return ", ".join(sorted({str(step.machine["device"]) for step in self.steps})) or "none"

    def tables(self) -> tuple[Table, ...]:
        rows = [
            (line.state, group[:2] if group[0].isdigit() else group, line.name, line.figure or line.how)
            for group, lines in self.groups()
            for line in lines
        ]
        return (Table("report card", ("state", "step", "property", "figure, or why"), rows),)

    def card(self) -> dict[str, Any]:
        """The content of card.json."""
        lines = self.properties()
        by_state = {
            state.replace(" ", "_"): [asdict(each) for each in lines if each.state == state] for state in STATES
        }
        return {
            "ok": self.ok,
            "headline": self.headline(),
            "device": self.device(),
            "run": self.run,
            "counts": {state: len(lines) for state, lines in by_state.items()},
            **by_state,
            "steps": {step.step: {"ok": step.ok, "title": step.title, "written": step.written} for step in self.steps},
        }

    def as_dict(self) -> dict[str, Any]:
        return self.card()

    def missing(self) -> list[str]:
        """The two digits of each step that has left no record."""
        return [name[:2] for name in self._unrecorded()]

    def _unrecorded(self) -> list[str]:
        """The steps that should have left a record, and did not: the known ones, and any that stopped."""
        recorded = {step.step[:2] for step in self.steps}
        names = {name[:2]: name for name in self._names_that_stopped()} | {name[:2]: name for name in STEPS}
        return [name for digits, name in sorted(names.items()) if digits not in recorded]

    def _names_that_stopped(self) -> list[str]:
        return [entry["name"] for entry in self.run.get("notebooks", ()) if entry["state"] == "failed"]

    def _ascend(self) -> Iterator[Property]:
        """The promises about Ascend that no line of this run keeps."""
        ran = [line for step in self.steps for line in step.lines if line.backend == "Ascend"]
        kept = [line.name for line in ran if line.state == "verified"]
        for promise, begins in ASCEND.items():
            if not any(name.startswith(begins) for name in kept):
                why = "not tried in this run" if ran else NO_ASCEND
                yield Property(promise, "not verified", why, backend="Ascend")

    def _failures(self) -> str:
        stopped = self._names_that_stopped()
        return f"; stopped in {stopped[0]}" if stopped else ""

    def _missing(self, name: str) -> Property:
        for stop in self._ended_badly(name):
            return stop
        return Property(STEPS[name], "not verified", "step not run", backend="none")

    def _stopped(self, step: StepReport) -> Iterator[Property]:
        """A notebook that failed after it wrote its record; a record written since then counts instead."""
        return self._ended_badly(step.step) if step.written <= self.run.get("ended", "") else iter(())

    def _ended_badly(self, name: str) -> Iterator[Property]:
        for entry in self.run.get("notebooks", ()):
            if entry["name"][:2] == name[:2] and entry["state"] == "failed":
                yield Property(f"notebook {entry['name']} runs to its end", "failed", entry["error"])


def gather(out: str | Path) -> Report:
    """Read every record of a run; steps that left none appear on the card as not verified.

    Raises:
        FileError: `out` is not a directory, or a record in it is damaged.
    """
    out = Path(out)
    if not out.is_dir():
        raise FileError("there is no run here", where=out, do="run the notebooks, or `mindport run`, first")
    steps = tuple(read_step(path) for path in sorted(out.glob("[0-9][0-9]*.json")))
    return Report(out, steps, _run_record(out / RUN))


def _run_record(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    record = read_json(path)
    entries = record.get("notebooks") if isinstance(record, dict) else None
    if not isinstance(entries, list) or not all(map(_is_entry, entries)):
        raise FileError("the record of the run is damaged", where=path, do="run again, or remove the file")
    return record


def _titled(name: str) -> str:
    """The stem of a notebook as a heading: 02_weight_conversion is "02 Weight conversion"."""
    return f"{name[:2]} {name[3:].replace('_', ' ').capitalize()}"


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and {"name", "state", "error"} <= entry.keys()
