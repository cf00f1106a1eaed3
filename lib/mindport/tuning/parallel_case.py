"""A job over several processes of one machine: speed-up, share of talk, what bare messages and buckets take."""

from __future__ import annotations

from dataclasses import dataclass, field

from mindport.tables import Table
from mindport.tuning.benchmark import Benchmark
from mindport.tuning.case import Case
from mindport.tuning.links import MEBI, Link, Message

ONE = "1 process, 1 thread"
SILENT = "dp 2, nothing exchanged"  # no training: each replica goes its own way
UNKNOWN = Link(0.0, 1.0)


@dataclass(frozen=True)
class Bucketed(Message):
    """The job's gradients, added up in buckets.

    Attributes:
        mebibytes: of a bucket; 0: each gradient alone.
    """

    mebibytes: float = 0.0


@dataclass(frozen=True)
class ParallelCase(Case):
    """The job in every layout, and its messages.

    Attributes:
        processes: of each contestant, and threads of each of them.
        collectives: bare messages by size.
        buckets: the gradients by bucket.
        talks: what a step of a contestant sends, timed by itself.
        link: the line through `collectives`.
        plans: seconds of that traffic by the planner's formulas, over such a link.
    """

    processes: dict[str, tuple[int, int]] = field(default_factory=dict)
    collectives: tuple[Message, ...] = ()
    buckets: tuple[Bucketed, ...] = ()
    talks: dict[str, Message] = field(default_factory=dict)
    link: Link = UNKNOWN
    plans: dict[str, float] = field(default_factory=dict)

    def speed_up(self, who: str, over: str) -> float:
        """How many times as fast as another contestant."""
        return self.timings[over].median / self.timings[who].median

    def share(self, who: str) -> float:
        """Of a step, what its messages take by themselves."""
        return self.talks[who].seconds / self.timings[who].median

    def left_out(self, who: str) -> float | None:
        """Seconds of a step that are gone when replicas exchange nothing; None for other layouts."""
        if SILENT not in self.timings or not who.startswith("dp"):
            return None
        return self.timings[who].median - self.timings[SILENT].median

    @property
    def whole(self) -> str:
        """The process that uses every core."""
        return max(
            (who for who, (count, _) in self.processes.items() if count == 1), key=lambda w: self.processes[w][1]
        )


@dataclass(frozen=True)
class Parallel(Benchmark):
    """Speed-ups beside one process; its verdict is that all layouts compute the same training."""

    cases: tuple[ParallelCase, ...]  # type: ignore[assignment]

    def headline(self) -> str:
        return "; ".join(_said(case) for case in self.cases) + self.verdicts()

    def tables(self) -> tuple[Table, ...]:
        own = (table for case in self.cases for table in (_speeds(case), _talk(case), _messages(case), _buckets(case)))
        return (*own, *(table for table in (self._numerics(), self._absent()) if table.rows))


def _said(case: ParallelCase) -> str:
    cores = case.processes[case.whole][1]
    parts = (
        f"{who}: {case.speed_up(who, ONE):.2f} × one process on 1 thread, {case.speed_up(who, case.whole):.2f} × "
        f"one on {cores}, {case.share(who):.0%} of its step is talk"
        for who in case.plans
    )
    return f"{case.name}, {cores} cores, which one process uses as well as two: {'; '.join(parts)}"


def _speeds(case: ParallelCase) -> Table:
    rows = [(who, f"{count} × {threads}", _ms(t.median), f"{_ms(t.lower_quartile)}–{_ms(t.upper_quartile)}",
             f"{case.rate(who):,.0f}", case.speed_up(who, ONE), case.speed_up(who, case.whole))
            for who, t in case.timings.items() for count, threads in [case.processes[who]]]  # fmt: skip
    columns = ("layout", "processes × threads", "ms a step", "quartiles", "tokens/s", f"× {ONE}", f"× {case.whole}")
    return Table(case.name, columns, rows)


def _talk(case: ParallelCase) -> Table:
    """Measured twice: the messages by themselves, and what a step saves that leaves them out; beside the planner."""
    rows = []
    for who, message in case.talks.items():
        saved, plan = case.left_out(who), case.plans.get(who)
        rows.append((who, message.messages, f"{message.bytes / MEBI:.3g}", _ms(message.seconds),
                     f"{case.share(who):.0%}", None if saved is None else _ms(saved),
                     _ms(case.link.seconds(message)), None if plan is None else _ms(plan),
                     None if plan is None else plan / message.seconds))  # fmt: skip
    columns = ("layout", "messages", "MiB", "ms by themselves", "share of the step", "ms saved without them",
               "ms by the line", "ms by the planner", "planner / measured")  # fmt: skip
    return Table("what a step sends", columns, rows)


def _messages(case: ParallelCase) -> Table:
    rows = [(_size(m.bytes), _ms(m.seconds), f"{m.rate:.3g}", _ms(case.link.seconds(m))) for m in case.collectives]
    line = f"{1e3 * case.link.latency:.3g} ms + size / {case.link.bandwidth / MEBI:.3g} MiB/s"
    return Table("AllReduce between the processes", ("size", "ms", "MiB/s", f"ms by the line: {line}"), rows)


def _buckets(case: ParallelCase) -> Table:
    rows = [(f"{b.mebibytes:g} MiB" if b.mebibytes else "each alone", b.messages, _ms(b.seconds),
             _ms(case.link.seconds(b)), case.buckets[0].seconds / b.seconds) for b in case.buckets]  # fmt: skip
    size = f"{case.buckets[0].bytes / MEBI:.3g} MiB" if case.buckets else ""
    return Table(f"the gradients, {size}, added up in buckets",
                 ("bucket", "messages", "ms", "ms by the line", "times as fast as each alone"), rows)  # fmt: skip


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


def _size(count: int) -> str:
    return f"{count // MEBI} MiB" if count >= MEBI else f"{count // 1024} KiB"
