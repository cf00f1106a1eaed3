"""The first module that makes a value that is not finite, forward or backward, and why.

    find_nonfinite(loss_cell, ids, labels)          a cell, its inputs
    find_nonfinite(step, ids, labels, cell=model)   a function, and the cell whose modules it calls

Works on any `nn.Cell` in PyNative mode: hooks name the module, then the module alone runs again, statement by
statement, until the operator is found. Nothing of it stays in the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindport.debug.hunt import Found, Hunt
from mindport.debug.summary import COLUMNS, Summary
from mindport.errors import UsageError, some
from mindport.results import Property, Result, verdict
from mindport.tables import Table


@dataclass(frozen=True)
class NonFinite(Result):
    """What was found.

    Attributes:
        phase: forward, backward, or "" when all values are finite.
        module: the cell in whose own code the value was made ("blocks.1.mlp.act").
        cell: its class.
        where: the place in its code, in words.
        line: file and line, where the source could be read.
        code: the expression that made it.
        cause: the kind, one of `reasons.DO`.
        says: the evidence for it.
        do: the next action.
        hidden: all values are finite, and only because this device answers 0 where others answer NaN.
        padding: how many of the tokens concerned are padding, when a mask was given.
        values: the tensors around it, most telling first.
        weights: parameters that are not finite.
        looked_at: how many tensors were looked at.
        searched: forward, or forward and backward.
    """

    phase: str = ""
    module: str = ""
    cell: str = ""
    where: str = ""
    line: str = ""
    code: str = ""
    cause: str = ""
    says: str = ""
    do: str = ""
    hidden: bool = False
    padding: str = ""
    values: tuple[Summary, ...] = ()
    weights: tuple[Summary, ...] = ()
    looked_at: int = 0
    searched: str = ""

    @property
    def ok(self) -> bool:
        return not self.phase and not self.weights

    def headline(self) -> str:
        if self.ok and not self.looked_at:
            return f"no value between the modules is of floating point: there was nothing to look at, {self.searched}"
        if self.ok:
            return f"all of {self.looked_at:,} values between the modules are finite, {self.searched}"
        if not self.phase:
            return f"{self.weights[0].name} is not finite; nothing that was computed shows it"
        code = f" at `{self.code}`" if self.code else ""
        verb = "hides a value that is not finite" if self.hidden else "makes the first value that is not finite"
        return f"{self.phase}: {self.module} ({self.cell}) {verb}, {self.where}{code}: {self.cause}"

    def tables(self) -> tuple[Table, ...]:
        if self.ok:
            return ()
        rows = [("cause", self.cause), ("evidence", self.says), ("line", self.line), ("do", self.do),
                ("rows", next((each.where() for each in self.values if not each.finite), "")),
                ("padding", self.padding)]  # fmt: skip
        found = Table("what was found", ("", "found"), [row for row in rows if row[1]])
        around = [each.cells() for each in (*self.values, *self.weights)]
        return (found, Table("the values around it", COLUMNS, around))

    def properties(self) -> tuple[Property, ...]:
        from mindspore import get_context

        how = f"hooks on every cell in PyNative mode, {self.searched}"
        figure = f"{self.looked_at:,} values" if self.ok else self.headline()
        return (verdict("every value between the modules is finite", self.ok, how, figure,
                        get_context("device_target")),)  # fmt: skip


def find_nonfinite(step: Callable[..., Any], *inputs: Any, cell: Any = None, real: Any = None) -> NonFinite:
    """Run a step, and name the first module that makes a value that is not finite.

    Scores may hold −inf where the future is hidden, as long as nothing but −inf is wrong with them.

    Args:
        step: a cell, or a function that calls one; of a training step its loss is taken, so that no weight moves.
        inputs: what it is called with.
        cell: the cell whose modules are watched; by default `step` itself.
        real: (B, T), 1 where a token is real and 0 where it is padding, to say which of them are concerned.

    Raises:
        UsageError: Graph mode or a compiled step, where no hook sees anything; or a function without its cell, or
            one that does not call it.
    """
    step, cell = _checked(step, cell)
    hunt = Hunt(step, inputs, cell)
    found = hunt.search()
    if found is None:
        return NonFinite(weights=hunt.weights, looked_at=hunt.looked_at, searched=hunt.searched)
    return _result(found, hunt, real)


def _checked(step: Any, cell: Any) -> tuple[Callable[..., Any], Any]:
    import mindspore as ms

    from mindport.training import TrainStep

    if ms.get_context("mode") != ms.PYNATIVE_MODE:
        raise UsageError("no hook sees into a compiled graph", got="GRAPH_MODE", expected="PYNATIVE_MODE",
                         do="ms.set_context(mode=ms.PYNATIVE_MODE), and run the same step again")  # fmt: skip
    step = step.loss if isinstance(step, TrainStep) else step
    step = step.network if isinstance(step, ms.nn.TrainOneStepCell) else step
    if cell is None and not isinstance(step, ms.nn.Cell):
        raise UsageError("a function does not say which cells it calls", got=step, do="give cell=model as well")
    cell = step if cell is None else cell
    codes = {"the step": step} | {name or "the cell": each.construct for name, each in cell.cells_and_names()}
    if compiled := [name for name, code in codes.items() if getattr(code, "__wrapped_by_jit__", False)]:
        raise UsageError("no hook sees into a compiled graph", where=some(compiled), got="ms.jit", expected="PyNative",
                         do="take ms.jit away while you search")  # fmt: skip
    return step, cell


def _result(found: Found, hunt: Hunt, real: Any) -> NonFinite:
    first, line = found.first, found.executed
    return NonFinite(
        phase=found.phase, module=first.name, cell=type(first.cell).__name__ if first.cell is not None else "none",
        where=first.where, line=f"{line.file.rpartition('/')[2]}:{line.number}  {line.code}" if line else "",
        code=found.culprit.code if found.culprit else line.code if line else "", cause=found.cause.kind,
        says=found.cause.says, do=found.cause.do, hidden=found.hidden,
        padding=_padding(found.values, real), values=found.values, weights=hunt.weights,
        looked_at=hunt.looked_at, searched=hunt.searched,
    )  # fmt: skip


def _padding(values: tuple[Summary, ...], real: Any) -> str:
    """Whether the rows concerned are padding, taking their first and last axes for batch and tokens."""
    bad = next((each for each in values if not each.finite and len(each.shape) > 2), None)
    if bad is None or real is None:
        return ""
    mask = np.asarray(real.asnumpy() if hasattr(real, "asnumpy") else real)
    rows = bad.rows[: bad.full_rows] or bad.rows
    tokens = {(row[0], row[-1]) for row in rows if row[0] < mask.shape[0] and row[-1] < mask.shape[1]}
    padded = sum(not mask[place] for place in tokens)
    return f"{padded} of the {len(tokens)} tokens concerned are padding"
