"""A job as the launcher sees it from its folder: what the ranks print, who has joined, who has failed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from mindport.parallel.launch import records
from mindport.parallel.launch.judge import Facts
from mindport.parallel.launch.logs import JOINED, PORT_TAKEN, Log, is_noise
from mindport.process_table import is_running

STACKS = 2.0  # seconds to wait for the ranks to say where they are


class Watch:
    """Looks at a job's folder.

    Args:
        folder: of the job.
        workers: its ranks.
        say: what is done with a line for the user.
    """

    def __init__(self, folder: Path, workers: int, say: Callable[[str], None]) -> None:
        self.folder, self.workers, self.say = folder, workers, say
        self.began = time.time()
        self.joined: set[int] = set()
        self.port_taken = False
        self._gone: dict[int, float] = {}
        self._logs = [Log(records.log_path(folder, rank)) for rank in range(workers)]
        self._scheduler = Log(records.log_path(folder, None))

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.time() - self.began

    def scheduler_is_lost(self) -> bool:
        """Whether it has ended, and not because all ranks had left it: the others would wait for it for ever."""
        started = records.read(self.folder, None, records.Started)
        if started is None:
            return False
        is_gone = not is_running(started.keeper)
        ended = records.read(self.folder, None, records.Ended)
        return is_gone if ended is None else ended.code != 0

    def look(self) -> list[Facts]:
        """Pass on what was printed since the last look, and say how each rank stands."""
        sizes = [log.size for log in self._logs]  # before the records: what a failure prints comes after its record
        facts = [self._facts(rank) for rank in range(self.workers)]
        self._read_scheduler()
        for rank, log in enumerate(self._logs):
            said = facts[rank].said
            for line in log.lines(min(sizes[rank], said.log if said is not None and said.code else sizes[rank])):
                self._pass_on(rank, line)
        return facts

    def finish(self) -> None:
        """Pass on what is left in the logs: all of it, and a last line without an end."""
        sizes: list[int] = []
        while sizes != (sizes := [log.size for log in self._logs]):
            self.look()
        for rank, log in enumerate(self._logs):
            for line in log.rest():
                self._pass_on(rank, line)

    def ask_for_stacks(self) -> None:
        """Have each rank that runs write down where it is."""
        asked = []
        for rank in range(self.workers):
            facts = self._facts(rank)
            if facts.started is not None and facts.ended is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(facts.started.pid, signal.SIGUSR1)
                    asked.append(records.stack_path(self.folder, rank))
        limit = time.monotonic() + STACKS
        while time.monotonic() < limit and not all(path.stat().st_size for path in asked):
            time.sleep(0.05)
        time.sleep(0.1)  # a stack is written frame by frame

    def tell_ranks(self, number: int) -> None:
        """Send each rank that runs a signal."""
        for rank in range(self.workers):
            facts = self._facts(rank)
            if facts.started is not None and facts.ended is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(facts.started.pid, number)

    def _facts(self, rank: int) -> Facts:
        started = records.read(self.folder, rank, records.Started)
        ended = records.read(self.folder, rank, records.Ended)
        if started is not None and ended is None and rank not in self._gone and not is_running(started.keeper):
            ended = records.read(self.folder, rank, records.Ended)  # it may have written that and gone in between
            if ended is None:
                self._gone[rank] = time.time()
        stack = records.stack_path(self.folder, rank)
        return Facts(
            rank, started, records.read(self.folder, rank, records.Said), ended, self._gone.get(rank),
            rank in self.joined, stack.read_text(errors="replace") if stack.exists() else "", self._logs[rank].last,
        )  # fmt: skip

    def _read_scheduler(self) -> None:
        for line in self._scheduler.lines(self._scheduler.size):
            self.port_taken |= PORT_TAKEN in line
            if (found := JOINED.search(line)) and (rank := int(found[1])) not in self.joined:
                self.joined.add(rank)
                self.say(f"rank {rank} has joined: {len(self.joined)} of {self.workers}, {self.seconds:.1f} s")

    def _pass_on(self, rank: int, line: str) -> None:
        if not is_noise(line):
            self.say(f"[rank {rank}] {line}")
