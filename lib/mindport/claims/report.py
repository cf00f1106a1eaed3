"""The answer of `mindport claims`: what was seen beside what the ledger says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from mindport.claims.ledger import VERDICTS, Claim
from mindport.claims.snippet import Seen, evidence, verdict
from mindport.errors import some
from mindport.results import Property, Result
from mindport.results import verdict as proved
from mindport.tables import Table

MANY = {"holds": "hold", "partly": "hold partly", "false": "are false", "version-dependent": "depend on the version",
        "inconsistent": "contradict themselves", "Ascend only": "are about Ascend only"}  # fmt: skip

State = Literal["agrees", "changed", "broken", "not run"]


@dataclass(frozen=True)
class Row:
    """One claim in one run.

    Attributes:
        verdict: the ledger's.
        expected: what the check should give; "" where there is none.
        seen: holds, partly or false; "" when the check gave nothing.
        state: agrees; changed: another verdict; broken: it raised, crashed or hung; not run: it has no check.
        evidence: what was seen, line by line; the error; or why it is not run.
        seconds: of the check.
        seen_on: the versions that the ledger's verdict is of.
        device: MindSpore's in this run; "" where its process had not needed MindSpore.
    """

    id: str
    topic: str
    claim: str
    verdict: str
    expected: str
    seen: str
    state: State
    evidence: tuple[str, ...]
    seconds: float
    practice: str
    seen_on: str
    device: str = ""


def seen(claim: Claim, found: Seen, device: str, seconds: float) -> Row:
    """The row of a check that gave an answer."""
    now = verdict(found)
    row = _row(claim, now, "agrees" if now == claim.expected else "changed", evidence(found), seconds)
    return replace(row, device=device)


def broken(claim: Claim, error: str, seconds: float) -> Row:
    """The row of a check that gave none."""
    return _row(claim, "", "broken", (error,), seconds)


def beside(fresh: Row, shared: Row) -> Row:
    """The row of a fresh process; if that agrees, with what was seen in a process that had run other checks before."""
    if fresh.state != "agrees":
        return fresh
    told = f"after other checks in one process: {'; '.join(shared.evidence)}"
    return replace(fresh, evidence=(*fresh.evidence, told), seconds=round(fresh.seconds + shared.seconds, 2))


def not_run(claim: Claim) -> Row:
    """The row of a claim that has no check."""
    return _row(claim, "", "not run", (claim.why_not,), 0.0)


def counts(claims: Iterable[Claim | Row]) -> str:
    """How many claims have each verdict: 60 hold, 90 are false, …"""
    found = Counter(claim.verdict for claim in claims)
    return ", ".join(f"{found[name]} {MANY.get(name, name)}" for name in VERDICTS if found[name])


@dataclass(frozen=True)
class ClaimsReport(Result):
    """One run of the ledger, or of a part of it.

    Attributes:
        rows: a claim each, in the order of the ledger.
        topics: titles of the topics.
        versions: of the packages, here and now.
        seconds: wall time.
    """

    rows: tuple[Row, ...]
    topics: dict[str, str]
    versions: dict[str, str]
    seconds: float

    @property
    def ok(self) -> bool:
        """Every check gave the verdict that stands in the ledger."""
        return not self.differing

    @property
    def ran(self) -> tuple[Row, ...]:
        """The claims that have a check."""
        return tuple(row for row in self.rows if row.state != "not run")

    @property
    def differing(self) -> tuple[Row, ...]:
        """The checks that gave another verdict, or none."""
        return tuple(row for row in self.rows if row.state in ("changed", "broken"))

    def headline(self) -> str:
        agree = len(self.ran) - len(self.differing)
        names = some([row.id for row in self.differing], 8)
        wrong = f"; not: {names}" if self.differing else ""
        return (
            f"{len(self.rows)} claims: {counts(self.rows)}. {agree} of {len(self.ran)} checks give the ledger's "
            f"verdict{wrong} ({self.seconds:.0f} s)"
        )

    def tables(self) -> tuple[Table, ...]:
        apart = [row for row in self.rows if row.state == "not run"]
        parts = [(self.differing, self._differing), (self.rows, self.totals), (self.ran, self._checked)]
        tables = [table() for rows, table in parts if rows]
        return (*tables, *([_apart(apart)] if apart else []))

    def totals(self) -> Table:
        """How many claims of each topic have each verdict, and how many were checked."""
        rows = [self._total(title, [r for r in self.rows if r.topic == name]) for name, title in self.topics.items()]
        rows = [row for row in rows if row[1]] + [self._total("all", self.rows)]
        return Table("claims by topic", ("topic", "claims", "checked", *VERDICTS), rows)

    def properties(self) -> tuple[Property, ...]:
        figure = f"{len(self.ran) - len(self.differing)} of {len(self.ran)}"
        name = "every claim about MindSpore that can run here has the ledger's verdict"
        devices = sorted({row.device for row in self.ran} - {""})
        return (proved(name, self.ok, "mindport claims", figure, ", ".join(devices) or "none"),)

    def as_dict(self) -> dict[str, Any]:
        by = {name: Counter(row.verdict for row in self.rows)[name] for name in VERDICTS}
        states = Counter(row.state for row in self.rows)
        return {**super().as_dict(), "totals": {"claims": len(self.rows), "checks": len(self.ran), **by, **states}}

    def _total(self, title: str, rows: Iterable[Row]) -> list[object]:
        rows = list(rows)
        found = Counter(row.verdict for row in rows)
        return [title, len(rows), sum(row.state != "not run" for row in rows), *(found[name] for name in VERDICTS)]

    def _differing(self) -> Table:
        rows = [
            [row.id, row.expected, row.seen or row.state, "; ".join(row.evidence), self._versions(row.seen_on)]
            for row in self.differing
        ]
        return Table("not as the ledger says", ("claim", "ledger", "seen", "evidence", "versions, then → now"), rows)

    def _checked(self) -> Table:
        rows = [
            [row.id, row.verdict, row.seen or row.state, row.seconds, row.claim, "; ".join(row.evidence)]
            for row in self.ran
        ]
        return Table("checked", ("claim", "verdict", "seen", "s", "it says", "evidence"), rows)

    def _versions(self, seen_on: str) -> str:
        """Which packages are no longer those that the verdict was seen on."""
        pairs = [pair.split(" ", 1) for pair in seen_on.split(", ") if " " in pair]
        moved = [f"{n} {then} → {self.versions[n]}" for n, then in pairs if self.versions.get(n, then) != then]
        return ", ".join(moved) or "the same"


def _apart(rows: Iterable[Row]) -> Table:
    told = [[row.id, row.verdict, row.claim, row.evidence[0]] for row in rows]
    return Table("not run here", ("claim", "verdict", "it says", "why not"), told)


def _row(claim: Claim, now: str, state: State, lines: tuple[str, ...], seconds: float) -> Row:
    expected = claim.expected if claim.check else ""
    return Row(claim.id, claim.topic, claim.claim, claim.verdict, expected, now, state, lines, seconds,
               claim.practice, claim.seen_on)  # fmt: skip
