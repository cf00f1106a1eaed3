"""Many layouts at once: a column for each of their numbers, so that 1,024 devices take no longer than a look."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from itertools import product

import numpy as np

from mindport.errors import UsageError
from mindport.mindformers.layout import Layout
from mindport.parallel.plan.job import Job, divisors

RECOMPUTE = ("none", "selective", "full")
NONE, SELECTIVE, FULL = range(3)
Ints = np.ndarray  # (N,) or (N, 1) of int64


@dataclass(frozen=True)
class Grid:
    """Layouts as columns.

    Attributes:
        dp, tp, pp, cp, zero, sp, recompute, micro_batches, interleave: as in `Layout`, recompute as an index of
            RECOMPUTE.
        batch: samples of a micro-batch; 0 where the global batch does not divide.
    """

    dp: Ints
    tp: Ints
    pp: Ints
    cp: Ints
    zero: Ints
    sp: Ints
    recompute: Ints
    micro_batches: Ints
    batch: Ints
    interleave: Ints

    def __len__(self) -> int:
        return len(self.dp)

    def __getitem__(self, rows: np.ndarray) -> Grid:
        return Grid(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @property
    def columns(self) -> Grid:
        """The same as (N, 1), to be held against pipeline stages (N, S)."""
        return Grid(**{field.name: getattr(self, field.name)[:, None] for field in fields(self)})

    @property
    def replicas(self) -> Ints:
        """Cards that hold the same weights: what ZeRO shares out, and what gradients are averaged over."""
        return self.dp * self.cp

    def layout(self, row: int) -> Layout:
        """One row as a layout."""
        at = {field.name: int(getattr(self, field.name)[row]) for field in fields(self)}
        return Layout(at["dp"], at["tp"], at["pp"], at["cp"], at["zero"], bool(at["sp"]),
                      RECOMPUTE[at["recompute"]], max(at["micro_batches"], 1), at["interleave"])  # fmt: skip


def enumerate_layouts(job: Job) -> Grid:
    """Every way to lay out a job, legal or not."""
    options = np.array(list(product(range(4), range(2), range(3))))  # zero, sp, recompute
    batches = {dp: _batches(job, dp) for dp in divisors(job.devices)}
    rows = [(*degrees, *batch, chunks) for degrees in _degrees(job.devices) for batch in batches[degrees[0]]
            for chunks in _chunks(job, degrees[2], batch[0])]  # fmt: skip
    base = np.repeat(np.array(rows, dtype=np.int64), len(options), axis=0)
    choice = np.tile(options, (len(rows), 1))
    return Grid(base[:, 0], base[:, 1], base[:, 2], base[:, 3], *choice.T, base[:, 4], base[:, 5], base[:, 6])


def as_grid(job: Job, layout: Layout) -> Grid:
    """One layout as a grid.

    Raises:
        UsageError: it is for another number of devices, or the batch does not divide.
    """
    if layout.devices != job.devices:
        raise UsageError("the layout is for another number of devices", where=layout, got=layout.devices,
                         expected=job.devices)  # fmt: skip
    parts = layout.dp * layout.micro_batches
    if job.global_batch % parts:
        raise UsageError("the global batch does not divide", where=layout, got=job.global_batch,
                         expected=f"a multiple of {parts}: replicas × micro-batches")  # fmt: skip
    values = (layout.dp, layout.tp, layout.pp, layout.cp, layout.zero, layout.sequence_parallel,
              RECOMPUTE.index(layout.recompute), layout.micro_batches, job.global_batch // parts,
              layout.interleave)  # fmt: skip
    return Grid(*(np.array([int(value)], dtype=np.int64) for value in values))


def simplified(layout: Layout) -> Layout:
    """Without what means nothing where there is one replica, or one rank."""
    return replace(layout, zero=layout.zero if layout.dp * layout.cp > 1 else 0,
                   sequence_parallel=layout.sequence_parallel and layout.tp > 1)  # fmt: skip


def _degrees(devices: int) -> list[tuple[int, int, int, int]]:
    """dp, tp, pp, cp of every factorisation."""
    return [
        (devices // (tp * pp * cp), tp, pp, cp)
        for tp in divisors(devices)
        for pp in divisors(devices // tp)
        for cp in divisors(devices // tp // pp)
    ]


def _chunks(job: Job, stages: int, micro_batches: int) -> list[int]:
    """Into how many equal chunks the layers of a stage divide, where a pipeline can interleave them."""
    share, rest = divmod(job.size.layers, stages)
    can = stages > 1 and share and not rest and micro_batches and micro_batches % stages == 0
    return divisors(share) if can else [1]


def _batches(job: Job, dp: int) -> list[tuple[int, int]]:
    """Micro-batches of a replica, and samples of each; (0, 0) where the batch does not divide."""
    share, rest = divmod(job.global_batch, dp)
    sizes = divisors(share) if job.micro_batch is None else [job.micro_batch]
    pairs = [(share // size, size) for size in sizes if share and share % size == 0]
    return pairs if pairs and not rest else [(0, 0)]
