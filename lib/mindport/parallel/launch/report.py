"""What a launch came to: of each rank, and of the whole."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

from mindport.results import Result
from mindport.tables import Table


@dataclass(frozen=True)
class RankEnd:
    """How one rank ended.

    Attributes:
        rank: its number.
        state: in words.
        code: exit code, negative where a signal ended it; None where the launcher did.
        seconds: after the launch at which it ended or failed.
        peak: bytes of memory that it held at most, where known.
        last: the last line that it printed.
        error: name and message of what it raised.
        traceback: of that.
        stack: where it was when it crashed, or when the launcher ended it for taking too long.
    """

    rank: int
    state: str
    code: int | None = None
    seconds: float | None = None
    peak: int | None = None
    last: str = ""
    error: str = ""
    traceback: str = ""
    stack: str = ""


@dataclass(frozen=True)
class LaunchReport(Result):
    """What a launch came to.

    Attributes:
        what: the script, or the function.
        workers: ranks.
        seconds: from beginning to end.
        log_dir: of the logs and records.
        ranks: how each one ended.
        first: the rank that failed before the others.
        stopped: why the launcher ended the job; empty where it did not.
        hints: what else may have been the cause.
    """

    what: str
    workers: int
    seconds: float
    log_dir: Path
    ranks: tuple[RankEnd, ...]
    first: int | None = None
    stopped: str = ""
    hints: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.first is None and not self.stopped and all(rank.state == "ended well" for rank in self.ranks)

    def headline(self) -> str:
        """What failed first, or that nothing did."""
        if self.ok:
            return f"{self.what}: {self.workers} ranks ended well in {self.seconds:.1f} s; logs in {self.log_dir}"
        logs = f"; logs in {self.log_dir}"
        if self.first is None:
            return f"{self.what}: {self.stopped or 'msrun ended before the ranks did'}{logs}"
        failed = self.ranks[self.first]
        when = "" if failed.seconds is None else f" after {failed.seconds:.1f} s"
        why = failed.error.strip().splitlines()
        return f"{self.what}: rank {failed.rank} failed first{when}: {why[0] if why else failed.state}{logs}"

    def evidence(self) -> str:
        """The traceback of the rank that failed first; where the job took too long, where each rank was."""
        if self.first is not None and self.ranks[self.first].traceback:
            shown = f"rank {self.first}:\n{self.ranks[self.first].traceback.rstrip()}"
        elif self.first is not None:
            failed = self.ranks[self.first]
            shown = f"rank {self.first}, its last line: {failed.last or 'none'}\n{failed.stack}".rstrip()
        else:
            shown = "\n\n".join(f"rank {rank.rank} was at:\n{rank.stack.rstrip()}" for rank in self.ranks if rank.stack)
        return "\n".join(filter(None, (shown, *self.hints)))

    def tables(self) -> tuple[Table, ...]:
        rows = [(rank.rank, rank.state, _seconds(rank.seconds), _mebibytes(rank.peak), _short(rank.last))
                for rank in self.ranks]  # fmt: skip
        return (Table("ranks", ("rank", "how it ended", "seconds", "peak MiB", "last line"), rows),)

    def text(self, limit: int | None = None) -> str:
        evidence = "" if self.ok else self.evidence()
        return "\n\n".join(filter(None, (self.headline(), evidence, *(table.text(limit) for table in self.tables()))))

    def _repr_html_(self) -> str:
        shown = "" if self.ok else f"<pre>{html.escape(self.evidence())}</pre>"
        return super()._repr_html_() + shown


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.1f}"


def _mebibytes(peak: int | None) -> str:
    return "–" if peak is None else f"{peak / 2**20:.0f}"


def _short(line: str, limit: int = 80) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"
