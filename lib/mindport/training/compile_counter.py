"""How often Graph mode compiled: in the middle of a run that costs as much time as many steps."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Hashable, Iterable, Iterator

from mindspore import nn

from mindport.errors import some


class Recompiled(UserWarning):
    """A graph was compiled although all that it was asked for had been computed before."""


class CompileCounter:
    """Counts the graphs that some cells have compiled.

    For every graph that MindSpore compiles for a cell, whatever the reason (another shape or dtype, another mode of
    the cell), it adds a phase to the cell's own `compile_cache`; when it finds the graph there, it does not.

    Args:
        cells: those that are called from Python; what they call is part of their graphs.

    Attributes:
        unexpected: graphs that were compiled although their keys had been seen.
    """

    def __init__(self, cells: Iterable[nn.Cell]) -> None:
        self.cells, self.seen, self.unexpected = tuple(cells), set[Hashable](), 0

    @property
    def total(self) -> int:
        """Graphs so far; 0 in PyNative mode."""
        return sum(len(cell.compile_cache) for cell in self.cells)

    @contextlib.contextmanager
    def watch(self, keys: Iterable[Hashable]) -> Iterator[None]:
        """Warn where the block compiles although all of `keys`, such as shapes, have been here before."""
        keys, before = set(keys), self.total
        yield
        if self.total > before and keys <= self.seen:
            self.unexpected += self.total - before
            warnings.warn(
                f"compiled again for {some(keys)}, which had been computed before: a cell was switched between "
                "training and evaluation, or changed", Recompiled, stacklevel=3)  # fmt: skip
        self.seen |= keys
