"""The result of `mindport coverage`: a row an operator, the shares not supported, and what to replace first."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.coverage.probe import Found, Outcome, Tried
from mindport.coverage.table import Operator, brief
from mindport.errors import some
from mindport.results import Property, Result, verdict
from mindport.tables import Table

LIMIT = 0.20  # of the operators; above it a migration is costly, says the rule that teams go by


@dataclass(frozen=True)
class Row:
    """One operator that the target uses.

    Attributes:
        operator: its name in the table, or torch's where the table has no row.
        state: what the counterpart did here (`probe.State`), or `not in the table`, or `not in torch`.
        counterpart: MindSpore's name of it.
        places: `file:line` of each use.
        says: the error, or how far off the value is.
        value: the largest difference to torch's value; gradient: that of the gradient.
        instead: what to write instead; replaced: what that did here.
        trap: what to mind; naive: the translation that looks right; naive_outcome: what that did here.
    """

    operator: str
    state: str
    counterpart: str
    places: tuple[str, ...]
    says: str = ""
    value: float | None = None
    gradient: float | None = None
    instead: str = ""
    replaced: Outcome | None = None
    trap: str = ""
    naive: str = ""
    naive_outcome: Outcome | None = None

    @classmethod
    def of(cls, operator: Operator, places: tuple[str, ...], tried: Tried) -> Row:
        ours = tried.ms
        return cls(operator.name, ours.state, operator.counterpart, places, ours.says, ours.value, ours.gradient,
                   operator.instead, tried.instead, operator.trap, operator.naive, tried.naive)  # fmt: skip

    @classmethod
    def unknown(cls, name: str, places: tuple[str, ...], found: Found) -> Row:
        """A name without a row: it counts as not supported, since nobody has tried it."""
        same = f"untried, of the same name: {', '.join(found.mindspore)}" if found.mindspore else "nothing of that name"
        return cls(brief(name), "not in the table" if found.torch else "not in torch", "–", places, same)

    @property
    def is_supported(self) -> bool:
        """A counterpart exists, runs on this device, and equals torch, gradient included."""
        return self.state == "runs"

    @property
    def replacement(self) -> str:
        """What to write instead, with what it did here."""
        if not self.instead or self.replaced is None:
            return self.instead or "–"
        return self.instead if self.replaced.runs else f"{self.instead} ({self.replaced.state}: {self.replaced.says})"


@dataclass(frozen=True)
class Other:
    """A name that is no operator: what stands in its place."""

    name: str
    uses: int
    counterpart: str
    remark: str


@dataclass(frozen=True)
class CoverageReport(Result):
    """What a target uses of torch; rows that are not supported first, the most used ones on top."""

    target: str
    device: str
    files: int
    rows: tuple[Row, ...]
    others: tuple[Other, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    limit: float = LIMIT

    @property
    def missing(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.is_supported)

    @property
    def operator_share(self) -> float:
        """Of the distinct operators, those not supported; 0 where there are none."""
        return len(self.missing) / max(1, len(self.rows))

    @property
    def use_share(self) -> float:
        """Of the uses, those of operators that are not supported."""
        return sum(len(row.places) for row in self.missing) / max(1, self._uses)

    @property
    def ok(self) -> bool:
        """Both shares are within the rule, and every file was read."""
        return max(self.operator_share, self.use_share) <= self.limit and not self.unread

    def headline(self) -> str:
        lost = f"; {len(self.unread)} of {self.files} files could not be read" if self.unread else ""
        uses = sum(len(row.places) for row in self.missing)
        return (
            f"{self.target}: {len(self.rows)} operators in {self._uses} places; {len(self.missing)} "
            f"({self.operator_share:.1%}) in {uses} ({self.use_share:.1%}) are not supported on this {self.device}, "
            f"the rule allows {self.limit:.0%}{lost}"
        )

    def tables(self) -> tuple[Table, ...]:
        first = [
            (r.operator, len(r.places), r.state, r.says or "–", r.replacement, some(r.places)) for r in self.missing
        ]
        runs = [(r.operator, len(r.places), r.counterpart, r.value, r.gradient, r.trap or "–")
                for r in self.rows if r.is_supported]  # fmt: skip
        others = [(o.name, o.uses, o.counterpart or "–", o.remark or "–") for o in self.others]
        tables = (
            Table("replace first", ("operator", "uses", "state", "says", "instead", "where"), first),
            Table("runs", ("operator", "uses", "MindSpore", "difference", "of the gradient", "mind"), runs),
            Table("no operators", ("name", "uses", "MindSpore", "remark"), others),
            Table("not read", ("file", "why"), self.unread),
            Table("notes", ("passed over",), [(note,) for note in self.notes]),
        )
        return tuple(table for table in tables if table.rows)

    def properties(self) -> tuple[Property, ...]:
        return (
            verdict(f"the operators of {self.target} run in MindSpore and equal torch's", self.ok, "mindport coverage",
                    f"{self.operator_share:.1%} not supported (limit {self.limit:.0%})", self.device),
        )  # fmt: skip

    def as_dict(self) -> dict[str, object]:
        shares = {"operator_share": self.operator_share, "use_share": self.use_share}
        return super().as_dict() | shares

    @property
    def _uses(self) -> int:
        return sum(len(row.places) for row in self.rows)
