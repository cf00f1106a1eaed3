"""A weight made enormous for a while: the fault that the finder is shown with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mindport.errors import UsageError


@contextmanager
def spoiled(model: Any, cell: str, largest: float) -> Iterator[None]:
    """The largest row of a cell's weight is made enormous, until the block ends.

    Args:
        model: in which the cell is.
        cell: the name of a cell with a weight ("blocks.1.mlp.up").
        largest: what its largest entry becomes; 3e38 makes a product overflow float32.

    Raises:
        UsageError: there is no such cell, or it has no weight.
    """
    cells = dict(model.cells_and_names())
    if cell not in cells or not hasattr(cells[cell], "weight"):
        raise UsageError("the model has no such cell with a weight", got=cell, expected="blocks.1.mlp.up, for instance")
    chosen = cells[cell]
    right = chosen.weight
    try:
        spoil(chosen, largest)
        yield
    finally:
        chosen.weight = right


def spoil(cell: Any, largest: float, row: int | None = None) -> None:
    """Give a cell another weight of the same name: `set_data` would leave stale buffers behind.

    Args:
        cell: whose `weight` is replaced.
        largest: what its largest entry becomes.
        row: which; by default the one with the largest entry.
    """
    from mindspore import Parameter, Tensor

    values = cell.weight.asnumpy().copy()
    chosen = int(np.abs(values).max(1).argmax()) if row is None else row
    values[chosen] *= largest / np.abs(values[chosen]).max()
    cell.weight = Parameter(Tensor(values), name=cell.weight.name)
