"""The search itself: hooks name the module, then its own code runs again until the operator is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mindport.debug.expressions import Culprit, culprit, softmax_operands
from mindport.debug.lines import Executed, Lines, methods_of
from mindport.debug.reasons import Reason, overflow, why
from mindport.debug.slopes import Slopes
from mindport.debug.summary import Summary, floating, summaries, summarise
from mindport.debug.watch import Sighting, Watch
from mindport.errors import UsageError


@dataclass(frozen=True)
class Found:
    """All that is known of a value that is not finite.

    Attributes:
        phase: forward or backward.
        first: where it was first seen, and whose code made it.
        cause: why.
        values: the tensors around it, most telling first.
        executed, culprit: the statement and the operator in it, where they could be found.
        hidden: the device hides it.
    """

    phase: str
    first: Sighting
    cause: Reason
    values: tuple[Summary, ...]
    executed: Executed | None = None
    culprit: Culprit | None = None
    hidden: bool = False


SPREADS = {"overflow", "inf − inf", "unknown"}  # what rows that a softmax left unwritten may look like later


class Hunt:
    """One step to be searched.

    Args:
        step, inputs: what is run.
        cell: the cell whose modules are watched.

    Attributes:
        weights: parameters that are not finite.
        looked_at: how many tensors were looked at.
        searched: forward, or both ways once there was something to differentiate.
    """

    def __init__(self, step: Callable[..., Any], inputs: tuple[Any, ...], cell: Any) -> None:
        self.step, self.inputs, self.cell = step, inputs, cell
        self.weights = tuple(each for weight in cell.get_parameters() for each in _weight(weight) if not each.finite)
        self.looked_at, self.searched = 0, "forward"

    def search(self) -> Found | None:
        """The first value that is not finite: forward, hidden in a softmax, then backward."""
        found = self.forward()
        if found is None or found.cause.kind in SPREADS:
            if rows := self.hidden():
                return replace(rows, hidden=found is None)
        return found or self.backward()

    def forward(self) -> Found | None:
        """The first value that is not finite; NaN and +inf count, −inf only where it comes out at the end."""
        with Watch(self.cell) as seen:
            output = self.step(*self.inputs)
        self.looked_at = seen.values
        if not seen.calls:
            raise UsageError("the step did not call this cell", where=type(self.cell).__name__,
                             do="name the cell that it calls: cell=…")  # fmt: skip
        first = seen.first or (seen.masks if any(not each.finite for each in summaries("", output)) else None)
        if first is None:
            return None
        return self._back_from_infinity(self._explained(first), seen)

    def hidden(self) -> Found | None:
        """Rows of scores in which everything is −inf, whatever a softmax made of them."""
        hits: list[tuple[Executed, Summary]] = []
        names = {id(cell): name or type(cell).__name__ for name, cell in self.cell.cells_and_names()}

        def see(executed: Executed) -> None:
            given = () if hits else softmax_operands(executed.node, executed.before, executed.names)
            hits.extend((executed, each) for each in given if each.masks and each.full_rows)

        with Lines(methods_of(names), see):
            self.step(*self.inputs)
        if not hits:
            return None
        executed, scores = hits[0]
        maker = executed.after["self"]
        first = Sighting(maker, names[id(maker)], "in what a softmax is given", (), (scores,))
        says = (f"{scores.full_rows:,} rows of `{scores.name}` are −inf throughout; the softmax of such a row is 0/0, "
                "and this device answers zeros (on a CPU rows after it may be left unwritten)")  # fmt: skip
        return Found("forward", first, Reason("masked row", says), (scores,), executed, hidden=True)

    def backward(self) -> Found | None:
        """The first gradient that is not finite."""
        slopes = Slopes(self.step, self.inputs, self.cell)
        if not slopes.exist:
            return None
        self.searched = "forward and backward"
        found = slopes.first()
        if found is None:
            return None
        first, cause, executed = found
        return Found("backward", first, cause, (*first.values, *first.inputs), executed)

    def _back_from_infinity(self, found: Found, seen: Watch) -> Found:
        """Where an infinity that only passed through was made: on an earlier line, or in an earlier module."""
        for earlier in (found.first, seen.masks) if found.cause.kind == "inf − inf" else ():
            made = self._explained(earlier, masks=False) if earlier else found
            if made.culprit and made.cause.kind != "inf − inf":
                return made
        return found

    def _explained(self, first: Sighting, *, masks: bool = True) -> Found:
        executed, part = self._located(first, masks)
        values = (part.value, *part.operands) if part else (*first.values, *first.inputs)
        return Found("forward", first, self._cause(first, part), values, executed, part)

    def _located(self, first: Sighting, masks: bool) -> tuple[Executed | None, Culprit | None]:
        """Run again, and find the statement in the cell's own code, and the operator in it."""
        hits: list[tuple[Executed, Culprit | None]] = []

        def see(executed: Executed) -> None:
            made = [each for name, value in executed.made().items() for each in summaries(name, value)]
            if not hits and any(not each.finite and not (masks and each.masks) for each in made):
                hits.append((executed, culprit(executed.node, executed.before, executed.names, masks=masks)))

        if first.cell is not None:
            with Lines(methods_of({id(first.cell): first.cell}), see):
                self.step(*self.inputs)
        return hits[0] if hits else (None, None)

    def _cause(self, first: Sighting, part: Culprit | None) -> Reason:
        if first.cell is None:
            return Reason("input", "it came in with the call")
        own = {weight.name for weight in first.cell.get_parameters(expand=False)}
        given = {(each.shape, each.counts()) for each in (part.operands if part else first.inputs)}  # as kernels are
        if bad := [each for each in self.weights if each.name in own or (each.shape, each.counts()) in given]:
            return Reason("weight", f"{bad[0].name} itself has {bad[0].counts()}")
        if part is not None:
            return why(part)
        return overflow(first.values[0], first.inputs) or Reason("unknown", "its code could not be read line by line")


def _weight(weight: Any) -> tuple[Summary, ...]:
    array = floating(weight)
    return () if array is None else (summarise(weight.name, array),)
