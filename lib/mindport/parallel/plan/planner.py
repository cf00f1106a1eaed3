"""Every layout of a job, held against the rules, the memory and the clock; the fastest first."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from mindport.errors import UsageError
from mindport.mindformers.layout import Layout
from mindport.mindformers.stages import split
from mindport.parallel.plan.grid import Grid, as_grid, enumerate_layouts
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.memory import memory, total, worst_stages
from mindport.parallel.plan.result import CLOSE, Candidate, End, Plan
from mindport.parallel.plan.rules import expressible, legal, settings
from mindport.parallel.plan.step_time import step_seconds, step_time

KEEP = 10
VARIED = ("peak", "efficiency", "half_width", "link", "network", "hbm", "tp_overlap", "dp_overlap", "margin", "master",
          "memory")  # fmt: skip


def plan(job: Job, keep: int = KEEP, layout: Layout | None = None) -> Plan:
    """Try every layout of a job.

    Args:
        job: what is laid out, and on what.
        keep: how many of the fastest are described in full; the fastest that MindSpore Transformers' YAML can say is
            always among them.
        layout: try this one only.

    Raises:
        UsageError: `keep` is no number from 1 on; the layout is for another number of devices, or the batch does not
            divide.
    """
    if keep < 1:
        raise UsageError("no such number of layouts", got=keep, expected="from 1 on")
    started = time.perf_counter()
    grid = enumerate_layouts(job) if layout is None else as_grid(job, layout)
    good, refused = legal(job, grid)
    grid = grid[good]
    needed, rate = score(job, grid)
    fits = needed <= job.limit
    order = _shown(grid, fastest(grid, needed, rate, fits), keep)
    tight = np.argsort(needed, kind="stable")[: 1 if not fits.any() else 0]  # nothing fits: the one that needs least
    found = Plan(
        job=job, tried=len(good), legal=len(grid), fitting=int(fits.sum()), close=_close(rate[fits]), refused=refused,
        ranked=tuple(describe(job, grid[[row]]) for row in order),
        smallest=tuple(describe(job, grid[[row]]) for row in tight), ends=(), seconds=time.perf_counter() - started,
    )  # fmt: skip
    return replace(found, ends=ends(job, found.best.layout)) if found.best else found


def ends(job: Job, layout: Layout) -> tuple[End, ...]:
    """What a layout comes to when each constant in turn is at an end of its range."""
    found = []
    for name in VARIED:
        constant = job.hardware.constants[name]
        for value in (constant.low, constant.high):
            end = evaluate(replace(job, hardware=job.hardware.with_values({name: value})), layout)
            found.append(End(name, value, end.tokens_per_second, end.needed, end.fits))
    return tuple(found)


def evaluate(job: Job, layout: Layout) -> Candidate:
    """One layout in full, whether it is legal or not.

    Raises:
        UsageError: it is for another number of devices, or the batch does not divide.
    """
    return describe(job, as_grid(job, layout))


def score(job: Job, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Bytes of the fullest card, and tokens a second of one card, for each layout."""
    if not len(grid):
        return np.zeros(0), np.zeros(0)
    stage = worst_stages(grid)
    needed = total(memory(job, grid, stage)).max(axis=1)
    return needed, job.global_batch * job.seq / job.devices / step_seconds(step_time(job, grid, stage))


def fastest(grid: Grid, needed: np.ndarray, rate: np.ndarray, fits: np.ndarray) -> np.ndarray:
    """Rows that fit, by tokens a second; of equal ones that which needs less memory, then the simpler one."""
    order = np.lexsort((grid.recompute, grid.zero, grid.interleave, grid.pp, grid.tp, needed, -rate))
    return order[fits[order]]


def _shown(grid: Grid, order: np.ndarray, keep: int) -> np.ndarray:
    """The first rows, and the first that can be written down where that is not among them."""
    sayable = [row for row in order if expressible(grid, row) == "yes"][:1]
    return np.array([*order[:keep], *(row for row in sayable if row not in order[:keep])], dtype=np.int64)


def _close(rate: np.ndarray) -> int:
    """How many are nearly as fast as the fastest."""
    return int((rate >= (1 - CLOSE) * rate.max()).sum()) if len(rate) else 0


def describe(job: Job, grid: Grid, recomputed: tuple[int, ...] | None = None) -> Candidate:
    """A grid of one layout as a row with all its parts, every stage looked at.

    `recomputed` says how many layers of each stage are recomputed; None: all of them.
    """
    stage = np.arange(int(grid.pp[0]))[None, :]
    again = None if recomputed is None else np.array([recomputed])
    parts = memory(job, grid, stage, again)
    times = {name: float(value[0]) for name, value in step_time(job, grid, stage, again).items()}
    needed, seconds = total(parts)[0], sum(times.values())
    rate = job.global_batch * job.seq / seconds / job.devices
    fullest = int(needed.argmax())
    return Candidate(
        layout=grid.layout(0), batch=int(grid.batch[0]), layers=split(job.size.layers, int(grid.pp[0])),
        stage=fullest, memory={name: float(value[0, fullest]) for name, value in parts.items()},
        stages=tuple(float(n) for n in needed), limit=job.limit, time=times, tokens_per_second=rate,
        mfu=rate * job.size.flops(job.seq) / job.peak, expressible=expressible(grid, 0),
        settings=settings(grid, 0, job),
    )  # fmt: skip
