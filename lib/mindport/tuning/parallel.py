"""One fixed job over one and two processes of this machine: how much faster, how much of it is talk, what buckets save.

Two processes on one machine share its cores, and so does a single process that computes with as many threads: what is
shown is that the layouts compute the same, what their messages cost, and what a second machine would bring at best.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mindport.machine import cores
from mindport.parallel.launch import call
from mindport.tuning import shapes
from mindport.tuning.harness import paired_ratios, timings
from mindport.tuning.links import Message, fit, predicted
from mindport.tuning.numerics import agree
from mindport.tuning.parallel_case import ONE, SILENT, Bucketed, ParallelCase

PROCESSES = 2
JOB = shapes.Workload("GPT-2 (4 layers, 256, V 2048), 8 × 256",
                      shapes.gpt2(256, 8, layers=4, vocab_size=2048, context=256), 8, 256)  # fmt: skip
BUCKET = 16.0  # MiB, what a training takes
DP, LOOSE, TP = "dp 2", "dp 2, each gradient alone", "tp 2"
LAYOUTS: dict[str, dict[str, Any]] = {
    DP: {"dp": PROCESSES, "bucket": BUCKET},
    LOOSE: {"dp": PROCESSES, "bucket": 0.0},
    SILENT: {"dp": PROCESSES, "reduce": False},
    TP: {"tp": PROCESSES},
}
LIMITS = {"loss": 1e-5}
SIZES = tuple(2**power for power in range(12, 27, 2))  # 4 KiB to 64 MiB
BUCKETS = (0.0, 1.0, 4.0, BUCKET)
ROUNDS, WARM_UP, CALLS, TIMEOUT = 7, shapes.STEPS, 7, 1800.0
QUICK: dict[str, Any] = {"rounds": 2, "warm_up": 2, "calls": 2, "sizes": SIZES[:5], "buckets": (0.0, BUCKET)}


def cases(quick: bool = False) -> Iterator[ParallelCase]:
    """The one job; quick: in tiny."""
    yield case(shapes.quick(JOB), **QUICK) if quick else case(JOB)


def case(
    job: shapes.Workload, *, rounds: int = ROUNDS, warm_up: int = WARM_UP, calls: int = CALLS,
    sizes: tuple[int, ...] = SIZES, buckets: tuple[float, ...] = BUCKETS,
) -> ParallelCase:  # fmt: skip
    """Measure one job; everybody takes turns in one launch.

    Raises:
        MindPortError: the processes could not be started, or one of them failed.
    """
    alone = {f"1 process, {n} thread{'s' * (n > 1)}": n for n in dict.fromkeys((1, cores()))}
    arguments = {"task": job.settings(), "layouts": LAYOUTS, "threads": alone, "rounds": rounds, "warm_up": warm_up,
                 "sizes": sizes, "buckets": buckets, "calls": calls}  # fmt: skip
    answers = call("mindport.tuning.ranks:measure", arguments, workers=PROCESSES, timeout=TIMEOUT)
    processes = {name: (1, threads) for name, threads in alone.items()}
    return judged(job, answers, processes | dict.fromkeys(LAYOUTS, (PROCESSES, max(1, cores() // PROCESSES))))


def judged(
    job: shapes.Workload, answers: list[dict[str, Any]], processes: dict[str, tuple[int, int]]
) -> ParallelCase:  # fmt: skip
    """What the ranks answered, as a case."""
    first = answers[0]
    losses = {
        who: {f"loss {n}": np.float64(x) for n, x in enumerate(found, 1)} for who, found in first["losses"].items()
    }
    seconds = {who: _slowest([answer["seconds"][who] for answer in answers]) for who in processes}
    collectives, buckets = ([kind(**row) for row in first[name]] for name, kind in
                            (("collectives", Message), ("buckets", Bucketed)))  # fmt: skip
    by_bucket, link = {b.mebibytes: b for b in buckets}, fit(collectives)
    plans = predicted(job.config, job.batch, job.tokens, link, PROCESSES)
    return ParallelCase(
        job.name, timings(seconds), paired_ratios(seconds), float(job.batch * job.tokens), "tokens/s",
        numerics=tuple(row for who in losses if who not in (ONE, SILENT)
                       for row in agree(who, losses[ONE], losses[who], LIMITS)),
        processes=processes, collectives=tuple(collectives), buckets=tuple(buckets), link=link,
        talks={DP: by_bucket[BUCKET], LOOSE: by_bucket[0.0], TP: Message(**first["tensor"])},
        plans={DP: plans["dp"], TP: plans["tp"]},
    )  # fmt: skip


def _slowest(ranks: list[list[list[float]]]) -> list[list[float]]:
    """A step ends when its last rank has ended; one that did not take part has no seconds."""
    return [[max(call) for call in zip(*filter(None, turn), strict=True)] for turn in zip(*ranks, strict=True)]
