"""Which rank failed first, and what became of the others: from what they wrote down, never from msrun's exit code."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from mindport.parallel.launch.records import Ended, Said, Started
from mindport.parallel.launch.report import RankEnd
from mindport.processes import ending

MEMORY = "by the kernel for want of memory, or by somebody"
RUNNERS = ('"<frozen runpy>"', "/runpy.py", "/mindport/parallel/launch/worker.py")
EARLY = 5.0  # seconds; a rank that ended well so long before another failed may be why


@dataclass(frozen=True)
class Facts:
    """What is known of a rank when the job is over, before what is left of it is ended.

    Attributes:
        gone: when its processes were found to be gone, without a record of how.
        joined: the scheduler knows it.
        stack: where it is, when it was asked.
        last: the last line that it printed.
    """

    rank: int
    started: Started | None
    said: Said | None
    ended: Ended | None
    gone: float | None = None
    joined: bool = False
    stack: str = ""
    last: str = ""

    @property
    def has_returned(self) -> bool:
        """Whether it is the rank of a `call`, and has its answer."""
        return self.said is not None and self.said.returned

    @property
    def is_well(self) -> bool:
        """Whether it has ended, and well."""
        if self.said is not None and self.said.code:
            return False
        return self.has_returned if self.ended is None else self.ended.code == 0

    @property
    def failed_at(self) -> float | None:
        """When it failed, if it did."""
        if self.said is not None and self.said.code:
            return self.said.at
        if self.ended is not None and self.ended.code:
            return self.ended.at
        return self.gone

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.ended is not None or self.gone is not None


def first_failure(facts: Sequence[Facts]) -> Facts | None:
    """The rank that failed before the others."""
    failed = [(rank.failed_at, rank.rank, rank) for rank in facts if rank.failed_at is not None]
    return min(failed)[2] if failed else None


def rank_ends(facts: Sequence[Facts], began: float, stopped: str) -> tuple[RankEnd, ...]:
    """How each rank ended.

    Args:
        facts: of each rank.
        began: when the job did, seconds since the epoch.
        stopped: why the launcher ended the job; empty where it did not.
    """
    first = first_failure(facts)
    return tuple(_end(rank, first, began, stopped) for rank in facts)


def _end(facts: Facts, first: Facts | None, began: float, stopped: str) -> RankEnd:
    last = facts.ended or facts.said
    at = facts.failed_at or (last and last.at)
    code = facts.said.code if facts.said and facts.said.code else facts.ended and facts.ended.code
    return RankEnd(
        facts.rank, _state(facts, first, stopped), code, None if at is None else at - began,
        last and last.peak, facts.last, facts.said.error if facts.said else "",
        facts.said.traceback if facts.said else "", _script_part(facts.stack),
    )  # fmt: skip


def _script_part(stack: str) -> str:
    """A stack without the frames that run a script."""
    return "".join(line for line in stack.splitlines(True) if not any(name in line for name in RUNNERS))


def _state(facts: Facts, first: Facts | None, stopped: str) -> str:
    if facts.is_well:
        return "ended well"
    if first is not None and facts is not first:
        failed = facts.failed_at is not None
        return f"{_failure(facts)}, after rank {first.rank}" if failed else f"ended, as rank {first.rank} failed"
    if facts.failed_at:
        return _failure(facts)
    if facts.started is None:
        return "never started"
    return f"ended by the launcher: {stopped}" if stopped else "ended with msrun"


def _failure(facts: Facts) -> str:
    if facts.said is not None and facts.said.code:
        return f"exit code {facts.said.code}" if facts.said.error.startswith("SystemExit") else "raised"
    if facts.ended is None:
        return "killed, with the process that waited for it"
    how = ending(facts.ended.code)
    if facts.ended.code == -signal.SIGKILL:
        how += f": {MEMORY}"
    return f"{how}, after its script had ended well" if facts.said is not None else how


def hints(facts: Sequence[Facts]) -> tuple[str, ...]:
    """What else may have been the cause."""
    first = first_failure(facts)
    if first is None or first.failed_at is None:
        return ()
    before = {rank.rank: first.failed_at - rank.ended.at for rank in facts if rank.is_well and rank.ended}
    return tuple(f"rank {rank} had ended with exit code 0, {seconds:.0f} s before: in a collective the others then "
                 "wait in vain" for rank, seconds in before.items() if seconds > EARLY)  # fmt: skip
