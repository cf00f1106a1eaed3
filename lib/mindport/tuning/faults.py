"""Fast and wrong: faults of a kind that speeds things up, and the parity of a rung that catches each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tuning.study import Figures, figures, form, milliseconds, study
from mindport.tuning.workload import cut_model, effort, shaped

RIGHT = "right"
PLANTED = ("no mask", "another activation")


@dataclass(frozen=True)
class Faults(Result):
    """The right step first, then those with a fault."""

    workload: str
    steps: tuple[Figures, ...]

    @property
    def ok(self) -> bool:
        """Whether parity catches every fault."""
        return len(self.steps) == 1 + len(PLANTED) and not any(step.same for step in self.steps[1:])

    def headline(self) -> str:
        caught = [step.name for step in self.steps[1:] if not step.same]
        return f"{len(caught)} of {len(PLANTED)} planted faults caught by loss and gradients: {', '.join(caught)}"

    def tables(self) -> tuple[Table, ...]:
        rows = [self._row(step) for step in self.steps]
        columns = ("step", "ms", "× the right one", "loss off by", "gradient off by", "state")
        return (Table(f"fast and wrong: {self.workload}", columns, rows),)

    def _row(self, step: Figures) -> tuple[object, ...]:
        state = "pass" if step is self.steps[0] else "missed" if step.same else "caught"
        times = (milliseconds(step.seconds), step.seconds / self.steps[0].seconds)
        return (step.name, *times, step.loss_error, step.gradient_error, state)

    def properties(self) -> tuple[Property, ...]:
        how = f"planted into the training step, compiled, and compared like a rung of the ladder; {self.workload}"
        return (verdict("a rung that is fast and wrong is caught by its parity", self.ok, how, self.headline(), "CPU"),)


def plant_faults(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Faults:
    """Plant each fault in a step of one layer in plain operators.

    Raises:
        BackendError: a process failed.
    """
    chosen, cut = effort(size), cut_model(directory, size, allow)
    small = shaped(cut.config.with_layers(1), cut.batch, cut.tokens)
    steps = [form(RIGHT, small, fast=(), mode=chosen.mode)]
    steps += [form(fault, small, fast=(), mode=chosen.mode, fault=fault) for fault in PLANTED]
    return Faults(small.name, figures(study(small, steps, chosen)))
