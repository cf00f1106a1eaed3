"""What the validation answers: errors of fitted and held-out rows, verdicts on memory, and how much of it is luck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mindport.parallel.plan.result import CLOSE, GB
from mindport.results import Property, Result
from mindport.tables import Table

SHARE = 2 / 3


@dataclass(frozen=True)
class Held:
    """A published row beside its prediction.

    Attributes:
        name, layout, source: which row.
        published, predicted: tokens a second of one card.
        error: predicted / published - 1.
        needed, limit: bytes of the fullest card, and what the configuration allows: it ran, so it must fit.
        without: bytes of the same layout without the recomputation that the row used; None where it used none.
        bare: bytes needed before the margin.
    """

    name: str
    layout: str
    source: str
    published: float
    predicted: float
    error: float
    needed: float
    limit: float
    without: float | None
    bare: float

    @property
    def close(self) -> bool:
        return abs(self.error) <= CLOSE

    @property
    def fits(self) -> bool:
        return self.needed <= self.limit

    @property
    def remark(self) -> str:
        """What the prediction says of the recomputation."""
        if self.without is None:
            return "none used"
        if self.without > self.limit:
            return "needed"
        return f"would fit without ({self.without / GB:.1f} GB): the estimate is too low, or it was taken for safety"


@dataclass(frozen=True)
class Sensitivity:
    """The outcome with one assumption changed."""

    change: str
    efficiency: float
    close: int
    rows: int


@dataclass(frozen=True)
class Other:
    """A utilisation that somebody else published, and the planner's for its own best layout."""

    system: str
    model: str
    devices: int
    published: float
    planned: float | None
    layout: str | None


@dataclass(frozen=True)
class Validation(Result):
    """The planner against what was published.

    Attributes:
        efficiency, whole: the fitted constant, from the first half and from all rows.
        fitted, held_out: rows of the two halves.
        unlaid: published without a layout: counted as missed.
        further: rows that nothing was fitted to.
        splits: share of held-out rows within 15 %, for every choice of half.
        sensitivity: the outcome at the ends of the assumed ranges.
        others: utilisations of other systems; nothing is held to them.
    """

    efficiency: float
    whole: float
    fitted: tuple[Held, ...]
    held_out: tuple[Held, ...]
    unlaid: tuple[Held, ...]
    further: tuple[Held, ...]
    splits: tuple[float, ...]
    sensitivity: tuple[Sensitivity, ...]
    others: tuple[Other, ...]

    @property
    def known(self) -> tuple[Held, ...]:
        """The rows with a layout, in the file's order: fitted and held out take turns."""
        pairs = [pair for two in zip(self.fitted, self.held_out, strict=False) for pair in two]
        return (*pairs, *self.fitted[len(self.held_out) :])

    @property
    def share(self) -> float:
        """Of the held-out rows, how many are within 15 %."""
        return float(np.mean([held.close for held in self.held_out]))

    @property
    def share_of_all(self) -> float:
        """Of all rows; one without a layout is missed."""
        return sum(held.close for held in self.known) / (len(self.known) + len(self.unlaid))

    @property
    def memory_right(self) -> bool:
        """Whether every row that ran is said to fit."""
        return all(held.fits for held in (*self.known, *self.further))

    @property
    def room(self) -> float:
        """The largest margin at which every row still fits."""
        return min(held.limit / held.bare for held in (*self.known, *self.further)) - 1

    @property
    def ok(self) -> bool:
        return self.memory_right and self.share >= SHARE and self.share_of_all >= SHARE

    def headline(self) -> str:
        close = sum(held.close for held in self.held_out)
        far = sum(held.close for held in self.further)
        ran = (*self.known, *self.further)
        fits = sum(held.fits for held in ran)
        return (
            f"{close} of {len(self.held_out)} held-out rows within {CLOSE:.0%} of what was published "
            f"({sum(held.close for held in self.fitted)} of {len(self.fitted)} fitted ones; {far} of "
            f"{len(self.further)} further rows), with one constant: efficiency {self.efficiency:.3f}; "
            f"memory: {fits} of {len(ran)} published layouts are said to fit. Nothing was run here."
        )

    def as_dict(self) -> dict[str, Any]:
        shares = {"share": self.share, "share_of_all": self.share_of_all, "memory_right": self.memory_right,
                  "room": self.room}  # fmt: skip
        return {**super().as_dict(), **shares}

    def tables(self) -> tuple[Table, ...]:
        return (
            rows_table("Published rows: throughput, tokens/s a card", [("fitted", h) for h in self.fitted]
                       + [("held out", h) for h in self.held_out] + [("no layout: missed", h) for h in self.unlaid]),
            memory_table([*self.known, *self.further]),
            rows_table("Further rows of the same release, never fitted", [("not fitted", h) for h in self.further]),
            self._splits(), self._sensitivity(), self._others(),
        )  # fmt: skip

    def properties(self) -> tuple[Property, ...]:
        state = "verified" if self.ok else "failed"
        figure = (f"{self.share:.0%} of held-out rows within {CLOSE:.0%} (at least {SHARE:.0%}), "
                  f"memory right: {'all' if self.memory_right else 'not all'}")  # fmt: skip
        how = "one constant fitted on half of the published rows, the other half predicted; nothing run here"
        return (Property("the planner agrees with published rows", state, how, figure),)

    def _splits(self) -> Table:
        lowest, middle, highest = min(self.splits), float(np.median(self.splits)), max(self.splits)
        good = float(np.mean([share >= SHARE for share in self.splits]))
        row = (len(self.splits), f"{lowest:.0%}", f"{middle:.0%}", f"{highest:.0%}", f"{good:.0%}")
        columns = ("ways to halve the rows", "worst", "median", "best", f"at least {SHARE:.0%}")
        return Table("Held-out rows within 15 %, for every choice of the fitted half", columns, [row])

    def _sensitivity(self) -> Table:
        rows = [(s.change, f"{s.efficiency:.3f}", f"{s.close} of {s.rows}") for s in self.sensitivity]
        return Table("One assumption changed, the efficiency fitted anew on all rows",
                     ("assumption", "efficiency", "rows within 15 %"), rows)  # fmt: skip

    def _others(self) -> Table:
        rows = [(o.system, o.model, o.devices, f"{o.published:.1%}",
                 "–" if o.planned is None else f"{o.planned:.1%}", o.layout or "–") for o in self.others]  # fmt: skip
        return Table("MFU that others publish (denominators not all known) and of the planner's fastest layout",
                     ("system", "model", "cards", "published", "planned", "layout"), rows)  # fmt: skip


def rows_table(title: str, rows: list[tuple[str, Held]]) -> Table:
    """Published beside predicted."""
    return Table(title, ("row", "layout", "used as", "published", "predicted", "error", "within 15 %"), [
        (h.name, h.layout, use, f"{h.published:,.0f}", f"{h.predicted:,.0f}", f"{h.error:+.1%}", h.close)
        for use, h in rows])  # fmt: skip


def memory_table(rows: list[Held]) -> Table:
    """Whether what ran is said to fit, and what recomputation was for."""
    return Table("Published rows: memory, GB on the fullest card; all of them ran",
                 ("row", "layout", "needed", "limit", "fits", "recomputation"), [
        (h.name, h.layout, f"{h.needed / GB:.1f}", f"{h.limit / GB:.1f}", h.fits, h.remark) for h in rows])  # fmt: skip
