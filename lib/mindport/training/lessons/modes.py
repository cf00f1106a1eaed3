"""PyNative beside Graph mode: the same steps, and what each takes."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.lessons.laboratory import Laboratory

STEPS, LIMIT = 6, 1e-5  # relative, of a loss
NAMES = {"pynative": "PyNative", "graph": "Graph"}


@dataclass(frozen=True)
class Way:
    """One mode.

    Attributes:
        mode: PyNative or Graph.
        first: seconds of the first step, compilation included.
        step: seconds of a later one, the median.
        losses: of all.
        graphs: that were compiled.
    """

    mode: str
    first: float
    step: float
    losses: tuple[float, ...]
    graphs: int


@dataclass(frozen=True)
class Modes(Result):
    """Both modes.

    Attributes:
        workload: in words.
        ways: PyNative, Graph.
    """

    workload: str
    ways: tuple[Way, Way]

    @property
    def apart(self) -> float:
        """The largest relative difference of two losses."""
        slow, fast = self.ways
        return max(abs(a - b) / abs(a) for a, b in zip(slow.losses, fast.losses, strict=True))

    @property
    def ok(self) -> bool:
        return self.apart <= LIMIT

    @property
    def worth_it(self) -> float | None:
        """Steps after which the compilation is paid; None where Graph mode is not faster."""
        slow, fast = self.ways
        gain = slow.step - fast.step
        return (fast.first - slow.first) / gain if gain > 0 else None

    def headline(self) -> str:
        slow, fast = self.ways
        paid = "never here" if self.worth_it is None else f"after {max(1.0, self.worth_it):.0f} steps"
        compiling = max(0.0, fast.first - fast.step)
        return (f"a step takes {1000 * fast.step:.0f} ms in Graph mode, {1000 * slow.step:.0f} ms in PyNative; "
                f"compiling took {compiling:.1f} s and is paid {paid}; losses within {self.apart:.1e}")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [(way.mode, f"{way.first:.2f}", f"{1000 * way.step:.1f}", way.graphs, f"{way.losses[-1]:.6f}")
                for way in self.ways]  # fmt: skip
        columns = ("mode", "first step, s", "later step, ms", "graphs", f"loss of step {STEPS}")
        return (Table(f"the same {STEPS} steps: {self.workload}", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = f"losses of {STEPS} steps; {self.workload}"
        return (verdict("PyNative and Graph mode train alike", self.ok, how,
                        f"{self.apart:.1e} (limit {LIMIT:g}, relative)", "CPU"),)  # fmt: skip


def compare_modes(laboratory: Laboratory) -> Modes:
    """Take the same steps in both modes, from the same weights."""
    slow, fast = (_way(laboratory, mode) for mode in NAMES)
    config = laboratory.config
    workload = f"{laboratory.layers} layers, {config.batch.rows} rows of {config.data.tokens} tokens"
    return Modes(workload, (slow, fast))


def _way(laboratory: Laboratory, mode: str) -> Way:
    stepper = laboratory.stepper(f"mode={mode}")
    records = [stepper.step([batch]) for batch in laboratory.batches(STEPS)]
    first, *later = (record.seconds for record in records)
    losses = tuple(record.loss for record in records)
    return Way(NAMES[mode], first, statistics.median(later), losses, stepper.compiles.total)
