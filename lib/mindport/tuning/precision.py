"""Levels of automatic mixed precision on this device: time, memory, and what becomes of loss and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import BackendError
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tuning.isolated import isolated
from mindport.tuning.study import Figures, figures, form, milliseconds, study
from mindport.tuning.workload import cut_model, effort, shaped

LEVELS = {
    "O0": "nothing: float32",
    "O1": "products and convolutions in float16 (a white list), the rest in float32",
    "O2": "float16, but nn.LayerNorm and nn.BatchNorm (a black list); softmax is not on it, nor is our RMSNorm",
    "O3": "float16, everything",
}
LOSS_LIMIT = 5e-3  # relative; float16 has three digits
FIRST = "O0"
WIDTH = 120  # characters of a message


@dataclass(frozen=True)
class Precision(Result):
    """The levels beside float32.

    Attributes:
        workload: in words.
        levels: O0 first.
        bfloat16: how a product of bfloat16 ends on this device; "" when it is computed.
        black, white: the lists of O2 and O1, as this MindSpore has them.
    """

    workload: str
    levels: tuple[Figures, ...]
    bfloat16: str
    black: tuple[str, ...]
    white: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every level trains: its losses are float32's, to what float16 can tell."""
        losses = [level.loss_error for level in self.levels if level.loss_error is not None]
        return len(losses) >= len(LEVELS) - 1 and all(error <= LOSS_LIMIT for error in losses)

    def headline(self) -> str:
        first = self.levels[0]
        times = ", ".join(f"{level.name} × {level.seconds / first.seconds:.2f}" for level in self.levels[1:])
        refusal = "bfloat16 is refused" if self.bfloat16 else "bfloat16 computes"
        return f"time beside float32: {times}; {refusal}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(level.name, LEVELS[level.name], milliseconds(level.seconds), round(level.memory), level.loss_error,
                 level.gradient_error) for level in self.levels]  # fmt: skip
        rows.append(("bfloat16", self.bfloat16 or "computes", None, None, None, None))
        columns = ("level", "in float16", "ms a step", "memory MB", "loss off by", "gradient off by")
        return (Table(f"mixed precision on this CPU: {self.workload}", columns, rows), self._lists())

    def _lists(self) -> Table:
        rows = [("O2 keeps in float32", ", ".join(self.black)), ("O1 converts", ", ".join(self.white))]
        return Table("lists of automatic mixed precision", ("level", "cells and operators"), rows)

    def properties(self) -> tuple[Property, ...]:
        how = f"losses of the first steps, relative to float32 (limit {LOSS_LIMIT:g}); {self.workload}"
        return (
            verdict("mixed precision trains like float32 on this CPU", self.ok, how, self.headline(), "CPU"),
            Property("mixed precision pays on an Ascend NPU", "not verified",
                     "float16 and bfloat16 are native to Ascend; a CPU widens, computes and narrows again"),
        )  # fmt: skip


def compare_precision(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Precision:
    """Train one layer of the cut model at every level, in plain operators: the C++ kernels take float32 only.

    Raises:
        BackendError: a process failed.
    """
    chosen, cut = effort(size), cut_model(directory, size, allow)
    small = shaped(cut.config.with_layers(1), cut.batch, cut.tokens)
    levels = [form(name, small, fast=(), amp="" if name == FIRST else name, mode=chosen.mode) for name in LEVELS]
    black, white = isolated(lists)
    return Precision(small.name, figures(study(small, levels, chosen)), refusal(), tuple(black), tuple(white))


def lists() -> tuple[list[str], list[str]]:
    """Names on O2's black list and on O1's white list; run in a process of its own."""
    import mindspore as ms

    return [kind.__name__ for kind in ms.amp.get_black_list()], [kind.__name__ for kind in ms.amp.get_white_list()]


def refusal() -> str:
    """How a product of two bfloat16 matrices ends here: the beginning of its error, or ""."""
    try:
        isolated(bfloat16_product)
    except BackendError as error:
        return f"refused: {str(error.got).splitlines()[0][:WIDTH]}"
    return ""


def bfloat16_product() -> float:
    """One product; run in a process of its own."""
    import mindspore as ms
    from mindspore import ops

    ones = ops.ones((8, 8), ms.bfloat16)
    return float(ops.MatMul()(ones, ones).astype(ms.float32).asnumpy().sum())
