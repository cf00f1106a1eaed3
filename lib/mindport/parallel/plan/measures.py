"""What each measure against a full memory saves, and what it costs: alone, and after those before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mindport.mindformers.layout import Layout
from mindport.parallel.plan.grid import as_grid
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.planner import evaluate
from mindport.parallel.plan.result import ESTIMATED, GB, Candidate
from mindport.parallel.plan.rules import legal
from mindport.results import Property, Result
from mindport.tables import Table

Setting = tuple[Job, Layout]


@dataclass(frozen=True)
class Step:
    """One measure.

    Attributes:
        measure: what is done.
        layout, dtype: after all measures up to this one.
        saved: bytes that it saves alone, from the start.
        slower: time of a step alone, relative to the start: 0.33 is a third more.
        needed: bytes of the fullest card after all up to this one.
        together: time of a step after all up to this one, relative to the start.
        fits: whether that is enough.
    """

    measure: str
    layout: str
    dtype: str
    saved: float
    slower: float
    needed: float
    together: float
    fits: bool


@dataclass(frozen=True)
class Relief(Result):
    """The measures in order, from a layout without them.

    Attributes:
        start: the layout without any of them.
        needed, limit: bytes that it takes on a card, and that there are.
        steps: the measures that the model and the cards allow.
    """

    start: str
    needed: float
    limit: float
    steps: tuple[Step, ...]

    @property
    def ok(self) -> bool:
        return self.needed <= self.limit or any(step.fits for step in self.steps)

    def headline(self) -> str:
        first = next((step for step in self.steps if step.fits), None)
        if self.needed <= self.limit:
            end = "fits as it is"
        else:
            end = f"fits after {first.measure!r}" if first else "fits after none of them"
        return f"{self.start}: {self.needed / GB:.1f} GB of {self.limit / GB:.1f} GB a card; {end} ({ESTIMATED})."

    def tables(self) -> tuple[Table, ...]:
        rows = [(s.measure, f"{s.saved / GB:.1f}", f"{s.slower:+.0%}", s.layout, s.dtype, f"{s.needed / GB:.1f}",
                 f"{s.together:+.0%}", s.fits) for s in self.steps]  # fmt: skip
        columns = ("measure", "saves alone, GB", "time alone", "all so far", "dtype", "GB a card", "time", "fits")
        return (Table(f"Measures against a full memory, in order ({ESTIMATED})", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        return (Property("measures against a full memory save what they promise", "not verified", ESTIMATED),)


def relief(job: Job, layout: Layout | None = None) -> Relief:
    """Try the measures on a layout.

    Args:
        job: what is laid out.
        layout: to start from; None for data parallelism with the whole share of the batch at once.

    Raises:
        UsageError: the global batch does not divide by the replicas, or the layout is for another number of devices.
    """
    start = (job, layout or Layout(dp=job.devices))
    first, now, steps = evaluate(*start), start, []
    for measure, change in MEASURES if layout is None else AGAINST_OOM:
        alone, after = change(*start), change(*now)
        if after == now or not (_legal(*alone) and _legal(*after)):
            continue
        now = after
        steps.append(_step(measure, first, evaluate(*alone), evaluate(*after), after[0].dtype))
    return Relief(str(start[1]), first.needed, first.limit, tuple(steps))


def _step(measure: str, first: Candidate, alone: Candidate, after: Candidate, dtype: str) -> Step:
    return Step(measure, str(after.layout), dtype, first.needed - alone.needed, alone.seconds / first.seconds - 1,
                after.needed, after.seconds / first.seconds - 1, after.fits)  # fmt: skip


def _legal(job: Job, layout: Layout) -> bool:
    parts = layout.dp * layout.micro_batches
    return job.global_batch % parts == 0 and bool(legal(job, as_grid(job, layout))[0][0])


def _accumulate(count: int | None) -> Callable[[Job, Layout], Setting]:
    """`count` times as many micro-batches; None: as many as there are samples."""

    def change(job: Job, layout: Layout) -> Setting:
        whole = job.global_batch // layout.dp
        return job, replace(layout, micro_batches=whole if count is None else min(whole, count * layout.micro_batches))

    return change


def _tensor(job: Job, layout: Layout) -> Setting:
    """Two ranks share a layer; each replica then has twice the samples, in twice as many micro-batches."""
    if layout.dp % 2:
        return job, layout
    many = layout.micro_batches > 1
    return job, replace(layout, dp=layout.dp // 2, tp=layout.tp * 2, sequence_parallel=True,
                        micro_batches=layout.micro_batches * (2 if many else 1),
                        zero=layout.zero if layout.dp > 2 else 0)  # fmt: skip


def _pipeline(job: Job, layout: Layout) -> Setting:
    """Twice the stages from half the replicas; each then has twice the samples, in at least as many parts as stages."""
    if layout.dp % 2:
        return job, layout
    many = max(layout.micro_batches * (2 if layout.micro_batches > 1 else 1), layout.pp * 2)
    return job, replace(layout, dp=layout.dp // 2, pp=layout.pp * 2, micro_batches=many,
                        zero=layout.zero if layout.dp * layout.cp > 2 else 0)  # fmt: skip


def _recompute(job: Job, layout: Layout) -> Setting:
    """Selective where nothing is computed again yet."""
    return job, replace(layout, recompute="selective" if layout.recompute == "none" else layout.recompute)


def _sharded(stage: int) -> Callable[[Job, Layout], Setting]:
    return lambda job, layout: (job, replace(layout, zero=max(stage, layout.zero)))


def _sequence(job: Job, layout: Layout) -> Setting:
    return job, replace(layout, sequence_parallel=layout.tp > 1)


def _set(**values: object) -> Callable[[Job, Layout], Setting]:
    return lambda job, layout: (job, replace(layout, **values))


def _half(job: Job, layout: Layout) -> Setting:
    """From float32 to mixed precision."""
    half = "bfloat16" if job.hardware.bf16 else "float16"
    return replace(job, dtype=half if job.dtype == "float32" else job.dtype), layout


MEASURES: tuple[tuple[str, Callable[[Job, Layout], Setting]], ...] = (
    ("half the micro-batch, twice as many", _accumulate(2)),
    ("one sample at a time, accumulated", _accumulate(None)),
    ("selective recomputation", _set(recompute="selective")),
    ("full recomputation", _set(recompute="full")),
    ("optimizer sharding (ZeRO-1)", _set(zero=1)),
    ("gradients sharded too (ZeRO-2)", _set(zero=2)),
    ("tensor parallelism over two cards", _tensor),
    ("half precision", _half),
)

# From a layout that was chosen, in the order of what they cost to try.
AGAINST_OOM: tuple[tuple[str, Callable[[Job, Layout], Setting]], ...] = (
    ("half the micro-batch, twice as many", _accumulate(2)),
    ("one sample at a time", _accumulate(None)),
    ("selective recomputation", _recompute),
    ("full recomputation", _set(recompute="full")),
    ("sequence parallelism", _sequence),
    ("optimizer sharding (ZeRO-1)", _sharded(1)),
    ("gradients sharded too (ZeRO-2)", _sharded(2)),
    ("twice the tensor parallelism", _tensor),
    ("twice the pipeline stages", _pipeline),
)
