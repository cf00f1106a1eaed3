"""Mixed precision: weights stay float32, and what is computed in half is a matter of the level.

    level   products of matrices          between cells         norms, softmax, rotation, activations, logits
    O0      float32                       float32               float32
    O1      half                          float32               float32
    O2      half                          half                  float32

A weight is rounded on its way into a product, so its gradient arrives at the float32 original. float16 needs a loss
scale (`training`), bfloat16 none. `precision_table` reads all this from the cells of a model.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mindspore as ms

from mindport.errors import BackendError, UsageError
from mindport.tables import Table

if TYPE_CHECKING:
    from mindspore import nn

LEVELS = ("O0", "O1", "O2")
HALVES = ("float16", "bfloat16")
FLOAT32 = "float32"


@dataclass(frozen=True)
class Precision:
    """What a model is computed in.

    Attributes:
        level: O0, O1 or O2.
        dtype: float16 or bfloat16, of what O1 and O2 compute in half.

    Raises:
        UsageError: there is no such level or dtype.
        BackendError: this device does not multiply in it.
    """

    level: str = "O0"
    dtype: str = "float16"

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UsageError("there is no such level of mixed precision", got=self.level, expected=", ".join(LEVELS))
        if self.dtype not in HALVES:
            raise UsageError("mixed precision computes in half", got=self.dtype, expected=" or ".join(HALVES))
        check_device(self.products)

    @property
    def products(self) -> str:
        """The dtype of what goes into products of matrices."""
        return FLOAT32 if self.level == "O0" else self.dtype

    @property
    def stream(self) -> str:
        """The dtype of what goes from cell to cell."""
        return self.dtype if self.level == "O2" else FLOAT32


def check_device(dtype: str) -> None:
    """Stop before any work that would fail in the first product.

    Raises:
        BackendError: this device multiplies no matrices of this dtype.
    """
    if dtype == "bfloat16" and ms.get_context("device_target") == "CPU":
        raise BackendError("MindSpore has no bfloat16 matrix product on a CPU", got=dtype,
                           expected="float32", do="use float32, or float16 with a loss scale")  # fmt: skip


def precision_table(model: nn.Cell) -> Table:
    """Each kind of cell of a model: its parameters, what it computes in, what it hands on, and why."""
    rows: Counter[tuple[str, ...]] = Counter()
    for _, cell in model.cells_and_names():
        for what, computed, given, why in getattr(cell, "precision", ()):
            held = sorted({str(weight.dtype).lower() for weight in cell.get_parameters(expand=False)})
            rows[what, ", ".join(held) or "none", computed, given, why] += 1
    columns = ("what", "cells", "parameters", "computed in", "handed on in", "why")
    return Table("what is computed in which precision", columns,
                 [(what, count, *rest) for (what, *rest), count in rows.items()])  # fmt: skip
