"""Processes that tokenise: started afresh (a fork would copy threads of frameworks), each with one part at a time."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mindport.errors import BackendError, MindPortError
from mindport.machine import cores
from mindport.processes import ending, environment
from mindport.training.data.worker import raised, tokenise

Job = tuple[dict[str, Any], Path]  # what to do, where the shard goes
SMALL = 1 << 20  # bytes of text: less is done here before a process would have started


def run(jobs: Sequence[Job], workers: int, done: Callable[[int], None]) -> None:
    """Tokenise parts into shards.

    Args:
        jobs: parts, and where their shards go.
        workers: processes; 0: one for each core.
        done: is told the bytes of each part when it is finished.

    Raises:
        FileError: a text is at fault; parts before and beside it are kept.
        BackendError: a process ended.
    """
    if sum(job["part"]["size"] for job, _ in jobs) <= SMALL:
        for job, shard in jobs:
            tokenise(job, shard)
            done(job["part"]["size"])
        return
    count = min(workers or cores(), len(jobs))
    waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    answers: queue.SimpleQueue[int | MindPortError] = queue.SimpleQueue()
    for job in [*jobs, *[None] * count]:
        waiting.put(job)
    processes = [_start() for _ in range(count)]
    try:
        for process in processes:
            threading.Thread(target=_serve, args=(process, waiting, answers), daemon=True).start()
        for _ in jobs:
            answer = answers.get()
            if isinstance(answer, MindPortError):
                raise answer
            done(answer)
    finally:
        for process in processes:
            _end(process)


def _start() -> subprocess.Popen[str]:
    quiet = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}  # the processes share the cores
    return subprocess.Popen([sys.executable, "-m", "mindport.training.data.worker"], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, encoding="utf-8",
                            env=environment(**quiet))  # fmt: skip


def _serve(process: subprocess.Popen[str], waiting: queue.SimpleQueue[Job | None],
           answers: queue.SimpleQueue[int | MindPortError]) -> None:  # fmt: skip
    """Hand parts to one process until there are none."""
    while job := waiting.get():
        try:
            answers.put(_ask(process, *job))
        except (MindPortError, OSError) as error:
            answers.put(error if isinstance(error, MindPortError) else BackendError("a process ended", got=error))
            return


def _ask(process: subprocess.Popen[str], job: dict[str, Any], shard: Path) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps({"job": job, "shard": str(shard)}), file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        raise BackendError("a process that tokenises ended", where=job["part"]["path"],
                           got=ending(process.wait()),
                           do="use fewer data.workers if memory ran out; what is finished is kept")  # fmt: skip
    if "error" in (answer := json.loads(line)):
        raise raised(answer)
    return job["part"]["size"]


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
