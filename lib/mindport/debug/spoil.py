"""One entry of a weight spoiled for a while: the fault that the finder is shown with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mindport.errors import UsageError


@contextmanager
def spoiled(model: Any, cell: str, value: float) -> Iterator[None]:
    """Give the largest entry of a cell's weight another value, until the block ends.

    Args:
        model: in which the cell is.
        cell: the name of a cell with a weight ("blocks.1.mlp.up").
        value: inf, as a step with an infinite gradient leaves it, or a number.

    Raises:
        UsageError: there is no such cell, or it has no weight.
    """
    cells = dict(model.cells_and_names())
    if cell not in cells or not hasattr(cells[cell], "weight"):
        raise UsageError("the model has no such cell with a weight", got=cell, expected="blocks.1.mlp.up, for instance")
    chosen = cells[cell]
    right = chosen.weight
    try:
        spoil(chosen, value)
        yield
    finally:
        chosen.weight = right


def spoil(cell: Any, value: float, entry: int | None = None) -> None:
    """Give a cell another weight of the same name: `set_data` would leave stale buffers behind.

    Args:
        cell: whose `weight` is replaced.
        value: of the entry.
        entry: which, counted through; by default the largest.
    """
    from mindspore import Parameter, Tensor

    values = cell.weight.asnumpy().copy()
    values.flat[int(np.abs(values).argmax()) if entry is None else entry] = value
    cell.weight = Parameter(Tensor(values), name=cell.weight.name)
