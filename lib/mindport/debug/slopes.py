"""The first gradient that is not finite, in backward order, and the statement whose slope it is."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from mindport.debug.expressions import operator
from mindport.debug.lines import Executed, Lines, methods_of
from mindport.debug.reasons import Reason, overflow
from mindport.debug.summary import Summary, floating, summaries, summarise, tensors
from mindport.debug.watch import GradientWatch, Seen, Sighting

STEEP = {"sqrt", "rsqrt", "norm", "std", "log", "log2", "log10", "pow", "**", "/", "div", "acos", "arccos"}


class Slopes:
    """A step whose values are finite, and its gradients.

    Args:
        step, inputs: what is differentiated, with respect to the weights of `cell`, or the inputs where it has none.
        cell: the cell whose modules are watched.
    """

    def __init__(self, step: Any, inputs: Sequence[Any], cell: Any) -> None:
        self.step, self.inputs, self.cell = step, inputs, cell
        self.trained = cell.trainable_params()
        self.places = tuple(i for i, value in enumerate(inputs) if floating(value) is not None)

    @property
    def exist(self) -> bool:
        """Whether there is anything to differentiate by."""
        return bool(self.trained or self.places)

    def first(self) -> tuple[Sighting, Reason, Executed | None] | None:
        """Where the first gradient that is not finite comes from; None when all are."""
        with GradientWatch(self.cell) as seen:
            gradients = self._differentiate()
        if seen.gradient is not None:
            return self._explained(self._by_tensor(seen, *seen.gradient))
        bad = [g for g in self._by_weight(gradients) if not g.finite]
        return self._explained(self._owner(bad[-1])) if bad else None  # the last weight's gradient is made first

    def _differentiate(self) -> Any:
        import mindspore as ms

        position = None if self.trained else self.places
        return ms.value_and_grad(self.step, position, weights=self.trained or None)(*self.inputs)[1]

    def _by_weight(self, gradients: Any) -> list[Summary]:
        if not self.trained:
            return []
        return [summarise(f"gradient of {weight.name}", array)
                for weight, gradient in zip(self.trained, gradients, strict=True)
                if (array := floating(gradient)) is not None]  # fmt: skip

    def _by_tensor(self, watch: GradientWatch, seen: Seen, gradient: Summary) -> Sighting:
        """The cell that used the tensor, or the one in whose code it was used."""
        name = common(seen.used_by) if seen.used_by else seen.made_by.name if seen.made_by else ""
        cells = {label: cell for _, cell in self.cell.cells_and_names() for label in [watch.names[id(cell)]]}
        name = name if name in cells else watch.names[id(self.cell)]
        before = () if watch.before is None else (watch.before,)
        return Sighting(cells[name], name, f"in the {gradient.name}", (*summaries("value", seen.tensor), *before),
                        (gradient,))  # fmt: skip

    def _owner(self, gradient: Summary) -> Sighting:
        weight = gradient.name.removeprefix("gradient of ")
        name, cell = next((name, cell) for name, cell in self.cell.cells_and_names()
                          if any(own.name == weight for own in cell.get_parameters(expand=False)))  # fmt: skip
        return Sighting(cell, name or type(cell).__name__, f"in the {gradient.name}", (), (gradient,))

    def _explained(self, first: Sighting) -> tuple[Sighting, Reason, Executed | None]:
        executed, around = self._statement(first.cell)
        if executed is None:
            return first, overflow(first.values[0], first.inputs) or _unknown(first), None
        operand = around[0]
        first = replace(first, inputs=(*around, *first.inputs))
        steep = sorted({operator(part) for part in ast.walk(executed.node)} & STEEP)
        if steep and operand.low == 0.0:
            says = f"`{operand.name}` goes down to 0, where the slope of {steep[0]} is infinite"
            return first, Reason("infinite slope", says), executed
        return first, overflow(first.values[0], first.inputs) or _unknown(first), executed

    def _statement(self, cell: Any) -> tuple[Executed | None, tuple[Summary, ...]]:
        """The statement that reads the local name whose gradient is the first that is not finite.

        Returns:
            The statement, None where it was not seen; with one, the value of that name, and the last gradient that
            was finite.
        """
        local = LocalGradients()
        try:
            with Lines(methods_of({id(cell): cell}), local.see):
                self._differentiate()
        finally:
            local.remove()
        return local.answer()


class LocalGradients:
    """Hooks on what the statements of a cell's code make."""

    def __init__(self) -> None:
        self._ran: list[Executed] = []
        self._handles: list[Any] = []
        self._bad: tuple[int, str, Summary] | None = None
        self._last: tuple[Summary, ...] = ()

    def see(self, executed: Executed) -> None:
        """A statement has run: look at the gradients of what it made; before the first one, of what was given."""
        if not self._ran:
            self._watch(executed.before)
        self._ran.append(executed)
        self._watch(executed.made())

    def remove(self) -> None:
        """Take every hook away."""
        for handle in self._handles:
            handle.remove()

    def answer(self) -> tuple[Executed | None, tuple[Summary, ...]]:
        """The guilty statement or None, and its operand with the last gradient that was finite."""
        if self._bad is None:
            return None, ()
        when, name, operand = self._bad
        reader = next((each for each in self._ran[when:] if name in _reads(each.node)), None)
        return reader, (operand, *self._last)

    def _watch(self, names: Mapping[str, Any]) -> None:
        from mindport.tracing.mindspore_side import on_gradient

        for name, value in names.items():
            for _, tensor in tensors(name, value):
                see = partial(self._arrived, len(self._ran), name, summaries(name, tensor))
                self._handles += on_gradient(tensor, see)

    def _arrived(self, when: int, name: str, value: tuple[Summary, ...], gradient: Any) -> None:
        found = summarise(f"gradient of {name}", gradient.asnumpy())
        if self._bad is None and found.finite:
            self._last = (found,)
        elif self._bad is None and value:
            self._bad = (when, name, value[0])


def common(names: Sequence[str]) -> str:
    """The innermost cell around all of them: blocks.0.attn for blocks.0.attn.q and blocks.0.attn.k."""
    columns = zip(*(name.split(".") for name in names), strict=False)  # as far as the shortest goes
    return ".".join(column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns))


def _reads(node: ast.stmt) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _unknown(first: Sighting) -> Reason:
    return Reason("unknown", f"the {first.values[0].name} is not finite, although all that arrived before it was")
