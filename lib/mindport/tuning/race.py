"""A case: contestants in processes of their own, all started first, then timed in turn."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from mindport.errors import BackendError, FileError, MindPortError
from mindport.fork_server import start
from mindport.machine import cores
from mindport.processes import environment
from mindport.tuning.case import FMA, GEMM, Case, Memory
from mindport.tuning.contestant import Contestant
from mindport.tuning.harness import paired_ratios, take_turns, timings
from mindport.tuning.numerics import Agreement, agree

QUIET = {"GLOG_v": "3", "TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TURN, MIDDLING = 0.5, 50.0  # seconds, GFLOP/s
PATIENCE = 900.0  # seconds for one answer
TAIL = 5  # lines of a failed process that are quoted


@dataclass(frozen=True)
class Plan:
    """How a case is timed and judged.

    Attributes:
        work: of one call, in units of `unit` times a second.
        limits: of the numerics, see `numerics.agree`.
        aims: peer → ratio that is aimed at.
        rounds, calls: turns of each contestant, and calls in each turn.
        warm_up: calls before the first turn; a training step's values are the losses of these.
        threads: of every contestant.
        unit: of the rate.
        peaks: whether the machine's are measured beside it.
        warm: whether contestants are forked by a fork server, which is quick; not where memory is to mean something.
    """

    work: float
    limits: Mapping[str, float]
    aims: Mapping[str, float] = field(default_factory=dict)
    rounds: int = 7
    calls: int = 3
    warm_up: int = 3
    threads: int = field(default_factory=cores)
    unit: str = "GFLOP/s"
    peaks: bool = True
    warm: bool = False

    @classmethod
    def of(
        cls, work: float, limits: Mapping[str, float], aims: Mapping[str, float], quick: bool = False, warm_up: int = 3
    ) -> Plan:
        """As many calls a turn as a middling contestant makes in `TURN` seconds; quick: two rounds, one thread."""
        if quick:
            return cls(work, limits, aims, rounds=2, calls=1, warm_up=warm_up, threads=1, peaks=False, warm=True)
        return cls(work, limits, aims, calls=max(1, min(50, round(TURN * MIDDLING / work))), warm_up=warm_up)


def race(name: str, contestants: Sequence[Contestant], plan: Plan, absent: Mapping[str, str] | None = None) -> Case:
    """Run one case; the first contestant is ours.

    Args:
        name: of the case.
        contestants: who takes part.
        plan: how it is timed and judged.
        absent: who does not take part, and why; contestants that cannot be built are added.

    Raises:
        BackendError: a contestant that is not optional cannot be built, or one fails later.
    """
    missing = dict(absent or {})
    with _started(contestants, plan, missing) as workers:
        seconds = take_turns({who: partial(worker.time, plan.calls) for who, worker in workers.items()}, plan.rounds)
        peaks = machine_peaks(plan.threads, missing) if plan.peaks else {}
        memory = {who: worker.memory() for who, worker in workers.items()}
        return Case(
            name, timings(seconds), paired_ratios(seconds), plan.work, plan.unit, memory=memory,
            numerics=_judge(workers, plan), aims=dict(plan.aims), peaks=peaks,
            about={who: worker.about for who, worker in workers.items()}, absent=missing,
        )  # fmt: skip


def machine_peaks(threads: int, absent: dict[str, str]) -> dict[str, float]:
    """GFLOP/s of multiply-adds in registers and of a large matrix product, now; `absent` is told why there are none."""
    from mindport.measure import peak  # late: it imports mindspore, which only contestants have from the start

    try:
        return {FMA: peak.fma_peak(threads), GEMM: peak.gemm_peak(threads)}
    except (BackendError, FileError) as error:
        absent["the machine's peaks"] = str(error)
        return {}


class Worker:
    """The other end of `worker.py`.

    Args:
        contestant: to build there.
        folder: where it runs, and leaves its messages.
        threads: that it computes with.
        warm: of a fork server, where its module has been imported; its memory is then counted from another state.
    """

    def __init__(self, contestant: Contestant, folder: Path, threads: int, warm: bool = False) -> None:
        self.contestant, self.folder = contestant, folder
        folder.mkdir()
        self.log = folder / "stderr"
        asked, self.questions = _pipe()
        self.answers, answered = _pipe()
        environ = environment(**QUIET, **dict.fromkeys(THREADS, str(threads)))
        with asked, answered, self.log.open("wb") as stderr:
            self.process = start("mindport.tuning.worker", [], [contestant.module] * warm, environ=environ,
                                 folder=folder, stdin=asked, stdout=answered, stderr=stderr)  # fmt: skip
        self.about: dict[str, Any] = {}

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(BrokenPipeError):
            self.questions.close()
        self.answers.close()

    def build(self, warm_up: int) -> None:
        """Build the contestant, and call it until it has compiled what it compiles."""
        who = self.contestant
        self.about = self.ask("build", module=who.module, function=who.function, settings=dict(who.settings))["about"]
        self.time(warm_up)

    def time(self, calls: int) -> list[float]:
        """Wall seconds of some calls."""
        return self.ask("time", calls=calls)["seconds"]

    def memory(self) -> Memory:
        """Megabytes before the building, and at the peak since."""
        return Memory(**self.ask("memory"))

    def values(self) -> dict[str, np.ndarray]:
        """What it computed, by name."""
        file = self.folder / "values.npz"
        self.ask("values", file=str(file))
        with np.load(file) as arrays:
            return dict(arrays)

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """One command and its answer.

        Raises:
            BackendError: the command failed, or the process ended.
        """
        with contextlib.suppress(BrokenPipeError):  # it ended: what it said last is told below
            print(json.dumps({"do": do, **arguments}), file=self.questions, flush=True)
        patience = threading.Timer(PATIENCE, self.process.kill)  # one that hangs would hang the benchmark
        patience.start()
        try:
            line = self.answers.readline()
        finally:  # also of Ctrl-C: Python would wait for the timer before it ends
            patience.cancel()
        answer = json.loads(line) if line else {"error": f"the process ended with {self.process.wait()}"}
        if "error" in answer:
            raise BackendError(f"a contestant failed to {do}", where=self.contestant.name, got=self._reason(answer))
        return answer

    def _reason(self, answer: Mapping[str, Any]) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return "\n".join([answer["error"].strip().splitlines()[0], *lines[-TAIL:]])


def _pipe() -> tuple[IO[str], IO[str]]:
    """Its ends, to read and to write."""
    reads, writes = os.pipe()
    return open(reads, encoding="utf-8"), open(writes, "w", encoding="utf-8")


@contextlib.contextmanager
def _started(contestants: Sequence[Contestant], plan: Plan, absent: dict[str, str]) -> Iterator[dict[str, Worker]]:
    """Every contestant built and warm; all processes end with the block."""
    with tempfile.TemporaryDirectory(prefix="mindport-bench-") as folder, contextlib.ExitStack() as stack:
        # imports overlap; building and warming up do not
        folders = [Path(folder) / str(n) for n in range(len(contestants))]
        started = [
            stack.enter_context(Worker(who, own, plan.threads, plan.warm))
            for who, own in zip(contestants, folders, strict=True)
        ]
        workers = {}
        for worker in started:
            try:
                worker.build(plan.warm_up)
                workers[worker.contestant.name] = worker
            except MindPortError as error:
                if not worker.contestant.optional:
                    raise
                absent[worker.contestant.name] = str(error.got)
        yield workers


def _judge(workers: Mapping[str, Worker], plan: Plan) -> tuple[Agreement, ...]:
    ours, *peers = workers
    reference = workers[ours].values()
    return tuple(row for peer in peers for row in agree(peer, reference, workers[peer].values(), plan.limits))
