"""Mixed precision by level: what becomes of the loss and of the gradients."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.errors import BackendError
from mindport.model import precision_table
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.lessons.laboratory import Laboratory

LEVELS = ("O0", "O1", "O2")
STEPS, LIMIT = 3, 5e-3  # relative: float16 has three digits


@dataclass(frozen=True)
class Level:
    """One level.

    Attributes:
        name: O0, O1, O2.
        losses, norms: of the steps.
        seconds: of the last step.
    """

    name: str
    losses: tuple[float, ...]
    norms: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class Levels(Result):
    """The levels beside float32.

    Attributes:
        levels: O0 first.
        bfloat16: how a model that computes in bfloat16 ends on this device; "" when it is made.
        kept: what O2 computes in which precision, read from the model's cells.
    """

    levels: tuple[Level, ...]
    bfloat16: str
    kept: Table

    def off(self, level: Level) -> float:
        """The largest relative difference from float32, of a loss."""
        return max(abs(a - b) / abs(b) for a, b in zip(level.losses, self.levels[0].losses, strict=True))

    @property
    def ok(self) -> bool:
        return all(self.off(level) <= LIMIT for level in self.levels)

    def headline(self) -> str:
        said = ", ".join(f"{level.name} {self.off(level):.1e}" for level in self.levels[1:])
        times = ", ".join(f"× {level.seconds / self.levels[0].seconds:.1f}" for level in self.levels[1:])
        return f"losses in float16 are off by {said} (limit {LIMIT:g}); a step takes {times} of float32's time here"

    def tables(self) -> tuple[Table, ...]:
        rows: list[tuple[object, ...]] = [
            (level.name, f"{level.losses[-1]:.5f}", self.off(level), f"{level.norms[-1]:.4f}", f"{level.seconds:.3f}")
            for level in self.levels
        ]
        rows.append(("bfloat16", self.bfloat16 or "is made here", None, None, None))
        columns = ("level", f"loss of step {STEPS}", "losses off by", "norm of the gradients", "seconds a step")
        return (Table("mixed precision, float16", columns, rows), self.kept)

    def properties(self) -> tuple[Property, ...]:
        how = f"losses of {STEPS} steps beside float32's, relative"
        worst = max(self.off(level) for level in self.levels)
        return (
            verdict("mixed precision trains like float32", self.ok, how, f"{worst:.1e} (limit {LIMIT:g})", "CPU"),
            Property("mixed precision is faster on an Ascend NPU", "not verified",
                     "an Ascend NPU computes in float16 and bfloat16; a CPU does not, and takes longer"),
        )  # fmt: skip


def compare_levels(laboratory: Laboratory) -> Levels:
    """Take the same steps at each level, from the same weights."""
    batches = laboratory.batches(STEPS)
    levels = []
    for name in LEVELS:
        stepper = laboratory.stepper("mode=pynative", f"precision.level={name}", "precision.loss_scale=1024.0")
        records = [stepper.step([batch]) for batch in batches]
        levels.append(Level(name, tuple(r.loss for r in records), tuple(r.norm for r in records), records[-1].seconds))
    return Levels(tuple(levels), _bfloat16(laboratory), precision_table(stepper.model))


def _bfloat16(laboratory: Laboratory) -> str:
    try:
        laboratory.stepper("mode=pynative", "precision.level=O1", "precision.dtype=bfloat16")
    except BackendError as error:
        return f"refused: {error.what}"
    return ""
