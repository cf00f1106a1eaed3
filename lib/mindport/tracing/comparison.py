"""What two traces of any module say about each other: the verdict and its evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mindport.errors import some
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tracing.distance import Distance
from mindport.tracing.names import joined

State = Literal["pass", "failed", "inherited"]
AROUND = 4  # rows shown on each side of the first divergence


@dataclass(frozen=True)
class Row:
    """One array under both names.

    Attributes:
        kind: in (a module was given it), out, back (the gradient by `out`), grad (by a parameter), or none of these.
        a, b: its names in the two traces.
        shape: A's, in B's layout.
        dtypes: A's and B's.
        apart: how far from the reference: from its float64 where there is one.
        limit: of `relative`.
        own: what the reference itself misses of its float64, relative; None where no side holds one.
        given: the largest `relative` of what the module was given; None where that is not in both traces.
        values: what stands at the place of the largest relative error, in A and in B.
        state: pass, failed, or inherited: what it was made of is wrong already.
        note: what else is to be said: shapes, NaN.
    """

    kind: str
    a: str
    b: str
    shape: tuple[int, ...]
    dtypes: tuple[str, str]
    apart: Distance
    limit: float
    own: float | None
    given: float | None
    values: tuple[float, float]
    state: State
    note: str

    @property
    def relative(self) -> float:
        return self.apart.relative

    @property
    def names(self) -> tuple[str, str]:
        """Of the arrays, in A and in B."""
        return joined(self.kind, self.a), joined(self.kind, self.b)

    @property
    def name(self) -> str:
        """Both, one where they are the same."""
        return " ↔ ".join(dict.fromkeys(self.names))


@dataclass(frozen=True)
class ParameterRow:
    """One parameter under both names: equal, of equal figures in another order, or different."""

    a: str
    b: str
    state: Literal["equal", "reordered", "rounded", "different"]
    note: str


@dataclass(frozen=True)
class Divergence:
    """The first value that is wrong, and what that says."""

    name: str
    relative: float
    limit: float
    says: str

    def __str__(self) -> str:
        return f"{self.name} ({self.relative:.1e}, limit {self.limit:.1e}): {self.says}"


@dataclass(frozen=True, kw_only=True)
class TraceComparison(Result):
    """Trace A, the reference, and trace B.

    Attributes:
        a, b: what each trace is of.
        rows: every pair, in A's order of execution; gradients after that.
        parameters: every parameter that both know.
        first_divergence: in the forward pass; None when there is none.
        first_backward: the same for the gradients, in the order in which A made them.
        only_a, only_b: arrays and parameters without a partner.
        proposals: rules that may bring those together.
        rules: each rule, and how many names of A it matched.
        three_way: how many values one side holds in float64 as well.
        padding: what was left out as padding; empty when nothing was.
        notes: what differs in how the two were made.
    """

    a: str
    b: str
    rows: tuple[Row, ...]
    parameters: tuple[ParameterRow, ...]
    first_divergence: Divergence | None
    first_backward: Divergence | None
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    proposals: tuple[str, ...]
    rules: tuple[tuple[str, int], ...]
    three_way: int
    padding: str
    notes: tuple[str, ...]

    @property
    def different(self) -> list[ParameterRow]:
        """The parameters that are not the same."""
        return [row for row in self.parameters if row.state == "different"]

    @property
    def ok(self) -> bool:
        return not self.different and all(row.state == "pass" for row in self.rows)

    def headline(self) -> str:
        alone = f"; {len(self.only_a)} names of A and {len(self.only_b)} of B have no partner"
        return self._verdict() + alone * bool(self.only_a or self.only_b)

    def _verdict(self) -> str:
        if self.different:
            names, note = some(row.a for row in self.different), self.different[0].note
            return f"the two do not have the same weights: {names} ({note})"
        if self.first_divergence is not None:
            return f"first divergence: {self.first_divergence}"
        if not self.ok:
            wrong = self.first_backward or next(row.name for row in self.rows if row.state != "pass")
            return f"every module agrees on the way forward; the first wrong value after that is {wrong}"
        worst = max(self.rows, key=_share)
        return f"{len(self.rows)} values agree in order of execution; the nearest to its limit is {_figure(worst)}"

    def tables(self) -> tuple[Table, ...]:
        found = [self.around(), self.values(), self.weights(), self.unpaired(), self.names_table()]
        return tuple(table for table in found if table.rows)

    def around(self) -> Table:
        """The rows before and after the first divergence."""
        wrong = next((place for place, row in enumerate(self.rows) if row.state != "pass"), None)
        rows = [] if wrong is None else self.rows[max(0, wrong - AROUND) : wrong + AROUND + 1]
        return _values("around the first divergence", rows)

    def values(self) -> Table:
        """Every value in order of execution."""
        exact = f"; {self.three_way} held to float64" if self.three_way else "; no side holds float64"
        return _values(f"every value, relative to the largest of its position or sample{exact}", self.rows)

    def weights(self) -> Table:
        """Parameters that are not equal bit for bit."""
        rows = [(row.a, row.b, STATES[row.state], row.note) for row in self.parameters if row.state != "equal"]
        return Table("parameters that are not equal", ("A", "B", "state", "what"), rows)

    def unpaired(self) -> Table:
        """What was not compared."""
        rows = [(side, name) for side, names in (("A", self.only_a), ("B", self.only_b)) for name in names]
        hint = "; perhaps --map " + " --map ".join(f"'{rule}'" for rule in self.proposals) if self.proposals else ""
        return Table(f"without a partner, and not compared{hint}", ("only in", "name"), rows)

    def names_table(self) -> Table:
        """The rules, and what was left out or is different about the two runs."""
        rows = [("rule", rule, f"{uses} names of A") for rule, uses in self.rules]
        rows += [("padding", self.padding, "left out")] * bool(self.padding)
        rows += [("note", note, "") for note in self.notes]
        return Table("how they were compared", ("what", "which", "effect"), rows)

    def properties(self) -> tuple[Property, ...]:
        how = f"{self.a} beside {self.b}"
        kinds = {"forward pass": ("in", "out"), "backward pass": ("back", "grad")}
        rows = {name: [row for row in self.rows if row.kind in kind] for name, kind in kinds.items()}
        lines = [_line(f"each value of the {name} agrees", group, how) for name, group in rows.items() if group]
        if self.parameters:
            counts = Counter(row.state for row in self.parameters)
            said = ", ".join(f"{count} {state}" for state, count in counts.items())
            lines.insert(0, verdict("the two modules have the same weights", not self.different, how, said))
        if alone := len(self.only_a) + len(self.only_b):
            why = f"{alone} names have no partner"
            lines.append(Property("the rest of the two traces agrees", "not verified", why))
        return tuple(lines)


STATES = {"equal": "pass", "reordered": "warning", "rounded": "warning", "different": "failed"}


def _share(row: Row) -> float:
    """Of its limit, how much of it an error takes."""
    return row.relative / row.limit if row.limit else row.relative


def _figure(row: Row) -> str:
    return f"{row.name}, {row.relative:.1e} (limit {row.limit:.1e})"


def _line(name: str, rows: Sequence[Row], how: str) -> Property:
    wrong = [row for row in rows if row.state != "pass"]
    figure = f"{len(rows) - len(wrong)} of {len(rows)}; worst {_figure(max(rows, key=_share))}"
    return verdict(name, not wrong, how, figure)


def _values(title: str, rows: Iterable[Row]) -> Table:
    columns = ("A", "B", "shape", "scale", "max abs", "relative", "limit", "own", "given", "cosine", "state", "what")
    cells = [
        (*row.names, row.shape, row.apart.scale, row.apart.error, row.relative, row.limit,
         row.own, row.given, "–" if row.apart.cosine is None else f"{row.apart.cosine:.9f}", row.state, row.note)
        for row in rows
    ]  # fmt: skip
    return Table(title, columns, cells)
