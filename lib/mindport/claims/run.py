"""Running the checks: two workers take turns at them, and none can spoil, stop or outlive another.

Claims with one set-up go to one worker, so that it runs once. A check that is `alone` gets a process of its own. A
worker that crashed, or had to be stopped, is replaced; its check is reported, not lost. A check that disagrees is
asked again in a fresh process, since MindSpore carries some of its state from one to the next: what it gave before is
told beside it.
"""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from tqdm import tqdm

from mindport.claims.ledger import Claim, Ledger, read_ledger
from mindport.claims.process import Worker
from mindport.claims.report import ClaimsReport, Row, beside, broken, not_run, seen
from mindport.machine import versions

WORKERS = 2


def run(
    only: Sequence[str] = (), topics: Sequence[str] = (), *, ledger: Path | None = None, workers: int = WORKERS,
    progress: bool = True,
) -> ClaimsReport:  # fmt: skip
    """Run the checks of the ledger and compare each with the verdict that stands there.

    Args:
        only: ids of claims; without them, all.
        topics: topics; without them, all.
        ledger: another file than the repository's.
        workers: processes at a time.
        progress: a bar on stderr, if that is a terminal.

    Raises:
        FileError: the ledger cannot be used.
        UsageError: there is no such claim or topic.
    """
    start = time.perf_counter()
    book = read_ledger(ledger)
    chosen = book.select(only, topics)
    rows = _run_all(book, [claim for claim in chosen if claim.check], workers, progress)
    found = tuple(rows[claim.id] if claim.check else not_run(claim) for claim in chosen)
    return ClaimsReport(found, dict(book.topics), versions(), round(time.perf_counter() - start, 1))


def _run_all(book: Ledger, claims: Sequence[Claim], workers: int, progress: bool) -> dict[str, Row]:
    """The rows by id."""
    waiting: queue.SimpleQueue[list[Claim]] = queue.SimpleQueue()
    for unit in _units(claims):
        waiting.put(unit)
    off = None if progress else True  # None: no bar where nobody watches
    with tqdm(total=len(claims), desc="claims", unit="check", file=sys.stderr, disable=off) as bar:
        with ThreadPoolExecutor(workers) as pool:
            turns = [_Turn(book, waiting, bar) for _ in range(workers)]
            ends = [pool.submit(turn.run) for turn in turns]
            try:
                wait(ends, return_when=FIRST_EXCEPTION)
                return {row.id: row for end in ends for row in end.result()}
            except BaseException:
                for turn in turns:
                    turn.stop()
                raise


def _units(claims: Sequence[Claim]) -> list[list[Claim]]:
    """What one worker does in one go; the slowest first, so that none is left over at the end."""
    units: dict[str, list[Claim]] = {}
    for claim in claims:
        units.setdefault(claim.set_up or claim.id, []).append(claim)
    return sorted(units.values(), key=lambda unit: -max(claim.timeout for claim in unit))


class _Turn:
    """One thread with one worker at a time."""

    def __init__(self, book: Ledger, waiting: queue.SimpleQueue[list[Claim]], bar: tqdm) -> None:
        self.book, self.waiting, self.bar = book, waiting, bar
        self.worker: Worker | None = None
        self.stopped = False

    def run(self) -> list[Row]:
        rows = []
        try:
            for claim in self._next():
                rows.append(self._row(claim))
        finally:
            self._drop()
        return rows

    def stop(self) -> None:
        """Let the thread come to its end at once."""
        self.stopped = True
        if self.worker is not None:
            self.worker.kill()

    def _next(self) -> Iterator[Claim]:
        """The claims that are waiting, unit by unit."""
        while not self.stopped and not self.waiting.empty():
            try:
                unit = self.waiting.get_nowait()
            except queue.Empty:
                return
            for claim in unit:
                if self.stopped:
                    return
                yield claim

    def _row(self, claim: Claim) -> Row:
        """One check; if it disagrees in a process that ran others, what it gives in a fresh one is what counts."""
        if claim.alone:
            self._drop()
        was_fresh = self.worker is None
        row = self._ask(claim)
        if not (row.state == "agrees" or was_fresh or self.stopped):
            self._drop()
            row = beside(self._ask(claim), row)
        self.bar.update()
        return row

    def _ask(self, claim: Claim) -> Row:
        worker = self._worker()
        start = time.perf_counter()
        request = {"name": claim.id, "source": claim.check, "set_up": claim.set_up}
        answer = worker.ask(request | {"set_up_source": self.book.set_ups.get(claim.set_up, "")}, claim.timeout)
        seconds = round(time.perf_counter() - start, 2)
        if claim.alone or not worker.alive:
            self._drop()
        if "seen" not in answer:
            return broken(claim, answer["error"], seconds)
        return seen(claim, answer["seen"], answer["device"], seconds)

    def _worker(self) -> Worker:
        self.worker = self.worker or Worker()
        return self.worker

    def _drop(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.close()
