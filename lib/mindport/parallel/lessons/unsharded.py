"""The usual fault of data parallelism: nobody told the data which rank it is for, so every replica reads the same rows.

It trains, the loss falls, and the batch is half of what it was meant to be.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindport.parallel.layouts import LayoutParity, compare_layouts
from mindport.parallel.layouts.worker import train_one
from mindport.parallel.lessons.workshop import smallest
from mindport.training.data.prepared import Prepared

WORKER = "mindport.parallel.lessons.unsharded:train_each"


def unsharded(out: Path | str) -> LayoutParity:
    """Train the smallest bundled model under dp2 with that fault, beside the right training.

    Args:
        out: a folder.
    """
    return compare_layouts(smallest(out), ["dp2"], out, worker=WORKER)


def train_each(configs: list[str]) -> list[dict[str, Any]]:
    """In each process: every replica takes the rows of the first."""
    right = Prepared.batches

    def the_same(self: Prepared, split: str, rows: int, *, rank: int = 0, ranks: int = 1, **rest: Any) -> Any:
        return right(self, split, rows, rank=0, ranks=ranks, **rest)

    Prepared.batches = the_same  # type: ignore[method-assign]  # this process ends with the launch
    return [train_one(path) for path in configs]
