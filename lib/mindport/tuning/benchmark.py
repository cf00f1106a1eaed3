"""What a benchmark answers: its cases in tables, the targets, and whether all computed the same."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from mindport.results import Result
from mindport.tables import Table
from mindport.tuning.case import FMA, GEMM, Case


@dataclass(frozen=True)
class Benchmark(Result):
    """The cases of a benchmark, and the machine they ran on. Its verdict is on the numerics, not on the speed."""

    name: str
    cases: tuple[Case, ...]
    machine: dict[str, Any]
    versions: dict[str, str]
    threads: int = 0

    @property
    def ok(self) -> bool:
        """Whether there are cases, and in each of them all computed the same."""
        return bool(self.cases) and all(case.ok for case in self.cases)

    def headline(self) -> str:
        peers = dict.fromkeys(peer for case in self.cases for peer in case.ratios)
        parts = (f"{_spread([c.ratios[peer] for c in self.cases if peer in c.ratios])} × {peer}" for peer in peers)
        return f"{self.name}, wall time (below 1 is faster): {', '.join(parts)}{self.verdicts()}"

    def verdicts(self) -> str:
        """Targets reached, targets missed, and the cases that do not compare like with like."""
        targets = [target for case in self.cases for target in case.targets()]
        missed = [str(target) for target in targets if target.state == "missed"]
        said = f"; {len(targets) - len(missed)} of {len(targets)} targets reached" if targets else ""
        said += f"; missed: {', '.join(missed)}" if missed else ""
        wrong = ", ".join(case.name for case in self.cases if not case.ok)
        return said + (f"; NOT THE SAME COMPUTATION: {wrong}" if wrong else "")

    def tables(self) -> tuple[Table, ...]:
        tables = (self._times(), self._targets(), self._memory(), self._numerics(), self._kernels(), self._absent())
        return tuple(table for table in tables if table.rows)

    def as_dict(self) -> dict[str, Any]:
        whole = super().as_dict()
        whole["cases"] = [{**fields, **case.as_dict()} for fields, case in zip(whole["cases"], self.cases, strict=True)]
        return {**whole, "ratios": {case.name: case.ratios for case in self.cases}}

    def _times(self) -> Table:
        rows = [_row(case, who) for case in self.cases for who in case.timings]
        columns = ("case", "who", "median ms", "quartiles", "fastest", "slowest", "ours / it", "in the round", "rate",
                   f"of {FMA}", f"of {GEMM}")  # fmt: skip
        return Table(self.name, columns, rows)

    def _targets(self) -> Table:
        rows = [(t.case, t.what, t.peer, t.ratio, t.limit, t.state) for case in self.cases for t in case.targets()]
        return Table("targets", ("case", "what", "against", "ratio", "target", "state"), rows)

    def _memory(self) -> Table:
        rows = [
            (case.name, who, round(m.growth), case.memory_ratios.get(who), round(m.before), round(m.peak))
            for case in self.cases
            for who, m in case.memory.items()
        ]
        return Table("memory, MB", ("case", "who", "growth", "ours / it", "before", "peak"), rows)

    def _numerics(self) -> Table:
        """The worst value of each peer; the JSON holds all."""
        rows = []
        for case in self.cases:
            for peer in dict.fromkeys(agreement.peer for agreement in case.numerics):
                its = [agreement for agreement in case.numerics if agreement.peer == peer]
                worst = max(its, key=lambda a: (not a.ok, a.error / a.limit))
                state = "pass" if worst.ok else "failed"
                rows.append((case.name, peer, len(its), worst.value, worst.error, worst.limit, state))
        columns = ("case", "peer", "values", "the worst", "error", "limit", "state")
        return Table("numerics: the same computation?", columns, rows)

    def _kernels(self) -> Table:
        found = (tuple(row) for case in self.cases for row in case.about.get(case.ours, {}).get("kernels", ()))
        return Table("kernels of ours", ("kernel", "path", "reason"), list(dict.fromkeys(found)))

    def _absent(self) -> Table:
        rows = [(case.name, who, why) for case in self.cases for who, why in case.absent.items()]
        return Table("not measured", ("case", "who", "why"), rows)


def _spread(ratios: list[float]) -> str:
    """The median, and the range of several."""
    middle = f"{statistics.median(ratios):.2f}"
    return middle if len(ratios) == 1 else f"{middle} ({min(ratios):.2f}–{max(ratios):.2f})"


def _row(case: Case, who: str) -> tuple[object, ...]:
    timing, shares, rate = case.timings[who], case.shares(who), case.rate(who)
    median, low, high, fastest, slowest = (
        f"{1e3 * seconds:.4g}"
        for seconds in (timing.median, timing.lower_quartile, timing.upper_quartile, timing.fastest, timing.slowest)
    )
    percent = [f"{shares[name]:.0%}" if name in shares else None for name in (FMA, GEMM)]
    return (case.name, who, median, f"{low}–{high}", fastest, slowest, case.ratios.get(who), case.paired.get(who),
            f"{rate:,.0f} {case.unit}" if rate >= 100 else f"{rate:.3g} {case.unit}", *percent)  # fmt: skip
