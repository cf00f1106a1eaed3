"""Hooks on every cell of a model, in the order of execution, until a value is not finite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from mindport.debug.summary import Summary, floating, summaries, summarise, tensors


@dataclass(frozen=True)
class Sighting:
    """A value that is not finite, where it was first seen, and who made it.

    Attributes:
        cell: the cell in whose code it was made; None: it came in from outside.
        name: its name in the model.
        where: the place in that code, in words.
        inputs: what the cell was given.
        values: what is not finite.
    """

    cell: Any
    name: str
    where: str
    inputs: tuple[Summary, ...]
    values: tuple[Summary, ...]


@dataclass
class Call:
    """A cell that has begun and not ended."""

    cell: Any
    name: str
    given: tuple[Any, ...]


class Watch:
    """`with Watch(root) as seen: root(x)`; no hook is left afterwards, whatever happened.

    A value that a cell returns was made by it, or by a cell inside it that returned before. A value that a cell is
    *given*, when all that was returned before is finite, was made between two calls, by the cell that called.

    Attributes:
        names: name of each cell by id.
        first: the first value with NaN or +inf.
        masks: the first with −inf only: a mask, or an overflow.
        values: how many tensors were looked at.
        calls: how often a cell was called.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self.names = {id(cell): name or type(cell).__name__ for name, cell in root.cells_and_names()}
        self.first: Sighting | None = None
        self.masks: Sighting | None = None
        self.values = self.calls = 0
        self._open: list[Call] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Watch:
        for _, cell in self.root.cells_and_names():
            self._handles.append(cell.register_forward_pre_hook(self._enter, with_kwargs=True))
            self._handles.append(cell.register_forward_hook(self._leave))
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _enter(self, cell: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        name, given = self.names[id(cell)], (*args, *kwargs.values())
        self.calls += 1
        self.given(cell, given)
        self._look(self._open[-1] if self._open else None, f"before it calls {name}", given)
        self._open.append(Call(cell, name, given))

    def _leave(self, cell: Any, args: tuple[Any, ...], output: Any) -> None:
        call = self._open.pop()
        self.made(call, output)
        self._look(call, "in what it returns", output)

    def given(self, cell: Any, values: tuple[Any, ...]) -> None:
        """For a subclass: a cell begins."""

    def made(self, call: Call, output: Any) -> None:
        """For a subclass: a cell ends."""

    def _look(self, maker: Call | None, where: str, value: Any) -> None:
        from mindspore import Parameter

        if self.first is not None:
            return
        made = [(name, tensor) for name, tensor in tensors("value", value) if not isinstance(tensor, Parameter)]
        found = [(name, array) for name, tensor in made if (array := floating(tensor)) is not None]
        self.values += len(found)
        bad = tuple(summarise(name, array) for name, array in found if not np.isfinite(array).all())
        if not bad:
            return
        sighting = Sighting(
            maker and maker.cell, maker.name if maker else "the input", where,
            summaries("input", maker.given) if maker else (), bad,
        )  # fmt: skip
        if not all(each.masks for each in bad):
            self.first = sighting
        elif self.masks is None:
            self.masks = sighting


@dataclass
class Seen:
    """A tensor of the forward pass, and where its gradient comes from.

    Attributes:
        name: "output of blocks.0.norm1".
        made_by: the cell whose code made it.
        used_by: the innermost cells that were given it.
        tensor: kept, so that its id stays its own.
    """

    name: str
    made_by: Call | None
    used_by: list[str]
    tensor: Any


class GradientWatch(Watch):
    """The same with a hook on every tensor between cells: gradients arrive in backward order.

    The gradient of a tensor is made by those who *used* it: by the cell it was given to, or, when no cell took it,
    by the code of the cell that made it.

    Attributes:
        gradient: the first gradient that is not finite.
        before: the last gradient that was, as it arrived.
    """

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self.gradient: tuple[Seen, Summary] | None = None
        self.before: Summary | None = None
        self._seen: dict[int, Seen] = {}

    def given(self, cell: Any, values: tuple[Any, ...]) -> None:
        caller = self._open[-1] if self._open else None
        for _, tensor in tensors("input", values):
            seen = self._register(tensor, f"an input of {self.names[id(cell)]}", caller)
            if seen:
                seen.used_by[:] = [name for name in seen.used_by if not self.names[id(cell)].startswith(name + ".")]
                seen.used_by.append(self.names[id(cell)])

    def made(self, call: Call, output: Any) -> None:
        caller = self._open[-1] if self._open else None
        for _, tensor in tensors("output", output):
            seen = self._register(tensor, f"the output of {call.name}", caller)
            if seen and seen.made_by is call:  # it leaves further out
                seen.made_by = caller

    def _register(self, tensor: Any, name: str, maker: Call | None) -> Seen | None:
        from mindport.tracing.mindspore_side import on_gradient

        if id(tensor) not in self._seen:
            seen = Seen(name, maker, [], tensor)
            if not (handles := on_gradient(tensor, lambda gradient: self._arrived(seen, gradient))):
                return None
            self._handles += handles
            self._seen[id(tensor)] = seen
        return self._seen[id(tensor)]

    def _arrived(self, seen: Seen, gradient: Any) -> None:
        if self.gradient is not None:
            return
        found = summarise(f"gradient of {seen.name}", gradient.asnumpy())
        if found.finite:
            self.before = found
        else:
            self.gradient = (seen, found)
