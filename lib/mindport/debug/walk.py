"""Stepping through a cell: every statement of its own code, and what it made.

    walk(model, ids, through="blocks.0.mlp")

It is what a debugger shows, on paper: no breakpoint has to be set, and a machine without a screen can do it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mindport.debug.lines import Executed, Lines, methods_of
from mindport.debug.summary import COLUMNS, Summary, summaries
from mindport.errors import UsageError
from mindport.results import Result
from mindport.tables import Table


@dataclass(frozen=True)
class Stop:
    """One statement: where it stands, and the tensors it made."""

    number: int
    code: str
    made: tuple[Summary, ...]


@dataclass(frozen=True)
class Walk(Result):
    """The statements of one call, in order.

    Attributes:
        cell: whose code it is.
        file: where it stands.
        stops: one a statement; a method that the code calls on itself appears before the line that called it.
    """

    cell: str
    file: str
    stops: tuple[Stop, ...]

    @property
    def ok(self) -> bool:
        return all(each.finite or each.masks for stop in self.stops for each in stop.made)

    def headline(self) -> str:
        bad = next((stop for stop in self.stops if not all(s.finite or s.masks for s in stop.made)), None)
        found = f"not finite from line {bad.number} on: `{bad.code}`" if bad else "all finite"
        return f"{self.cell}, {len(self.stops)} statements of {self.file}: {found}"

    def tables(self) -> tuple[Table, ...]:
        rows = []
        for stop in self.stops:
            lines = [each.cells()[:-1] for each in stop.made] or [("", "", "", "", "", "")]
            rows += [(*((stop.number, stop.code) if i == 0 else ("", "")), *line) for i, line in enumerate(lines)]
        return (Table("line by line", ("line", "code", *COLUMNS[:-1]), rows),)


def walk(step: Callable[..., Any], *inputs: Any, through: str = "", cell: Any = None) -> Walk:
    """Run a step and note what each statement of one cell makes, each time that the cell is called.

    Args:
        step: a cell, or a function that calls one.
        inputs: what it is called with.
        through: the name of the cell to look into; "" is the whole model's own code.
        cell: the model, when `step` is a function.

    Raises:
        UsageError: there is no such cell, it was not called, or its source cannot be read.
    """
    model = step if cell is None else cell
    cells = dict(model.cells_and_names())
    if through not in cells:
        raise UsageError("the model has no such cell", got=through, do="list(dict(model.cells_and_names()))")
    chosen, stops, files = cells[through], [], []

    def see(executed: Executed) -> None:
        made = tuple(s for name, value in executed.made().items() if name != "self" for s in summaries(name, value))
        files.append(executed.file.rpartition("/")[2])
        stops.append(Stop(executed.number, executed.code, made))

    with Lines(methods_of({id(chosen): chosen}), see):
        step(*inputs)
    if not stops:
        raise UsageError("no statement of this cell was seen", where=through or type(chosen).__name__,
                         do="is it called, and in PyNative mode? A compiled graph shows nothing")  # fmt: skip
    return Walk(through or type(chosen).__name__, files[0], tuple(stops))
