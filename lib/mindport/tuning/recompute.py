"""What it costs, and what it saves, to compute the blocks again in the backward pass in place of keeping them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tuning.study import Figures, figures, form, milliseconds, study
from mindport.tuning.workload import cut_model, effort, shaped

MODES = {"pynative": "PyNative", "graph": "Graph"}
KEPT, AGAIN = "kept", "computed again"
LONGER = 2  # a batch of more tokens than the ladder's: activations, not parameters, should be what is kept


@dataclass(frozen=True)
class Recompute(Result):
    """Both ways in both modes.

    Attributes:
        workload: in words.
        ways: (mode, way) in the order PyNative kept, again, Graph kept, again.
    """

    workload: str
    ways: tuple[Figures, ...]

    @property
    def ok(self) -> bool:
        """Whether the numbers are the same whichever way they were made."""
        return len(self.ways) == 2 * len(MODES) and all(way.same for way in self.ways)

    def headline(self) -> str:
        parts = [f"{mode}: time × {again.seconds / kept.seconds:.2f}, memory × {again.memory / kept.memory:.2f}"
                 for mode, kept, again in self.pairs()]  # fmt: skip
        return "; ".join(parts) + ("; same numbers" if self.ok else "; NOT THE SAME NUMBERS")

    def pairs(self) -> list[tuple[str, Figures, Figures]]:
        """Mode, kept, computed again."""
        return [(mode, *self.ways[2 * i : 2 * i + 2]) for i, mode in enumerate(MODES.values())]

    def tables(self) -> tuple[Table, ...]:
        rows = [(way.name, milliseconds(way.seconds), round(way.memory), way.loss_error, way.gradient_error, way.state)
                for way in self.ways]  # fmt: skip
        columns = ("activations", "ms a step", "memory MB", "loss off by", "gradient off by", "state")
        return (Table(f"recompute: {self.workload}", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = f"losses and first gradients of {KEPT} and {AGAIN} activations, PyNative and Graph; {self.workload}"
        return (verdict("recomputed activations give the same losses and gradients", self.ok, how, self.headline(),
                        "CPU"),)  # fmt: skip


def compare_recompute(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Recompute:
    """Train the cut model both ways, in both modes.

    Raises:
        BackendError: a process failed.
    """
    chosen, cut = effort(size), cut_model(directory, size, allow)
    longer = shaped(cut.config, cut.batch, LONGER * cut.tokens)
    ways = [form(f"{name}, {way}", longer, mode=mode, recompute=way == AGAIN)
            for mode, name in MODES.items() for way in (KEPT, AGAIN)]  # fmt: skip
    return Recompute(longer.name, figures(study(longer, ways, chosen)))
