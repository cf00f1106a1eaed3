"""A pipeline's schedule, slot by slot: who computes what when, and who waits.

One forward, one backward (1F1B); interleaved as Megatron-LM does it (Narayanan et al. 2021, arXiv:2104.04473): the
layers of a stage are cut into chunks, and groups of as many micro-batches as stages go through chunk after chunk. A
backward pass takes twice the time of a forward pass, and sending none: what is left is the bubble itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mindport.errors import UsageError
from mindport.results import Property, Result
from mindport.tables import Table

BACKWARD = 2.0  # of a forward pass
LARGEST = 4096  # pieces of work on a stage: more are neither seen nor needed
RULE = (2, 4)  # micro-batches for each stage that articles recommend


class Pass(NamedTuple):
    """A chunk of layers over a micro-batch, forward or backward."""

    chunk: int
    micro_batch: int
    forward: bool


@dataclass(frozen=True)
class Work:
    """A pass in its place; times are in forward passes of a whole stage."""

    stage: int
    chunk: int
    micro_batch: int
    forward: bool
    start: float
    end: float


@dataclass(frozen=True)
class Schedule(Result):
    """A step of a pipeline.

    Attributes:
        stages, micro_batches, interleave: p, m and v.
        work: every pass, stage by stage in the order of time.
    """

    stages: int
    micro_batches: int
    interleave: int
    work: tuple[Work, ...]

    @property
    def ok(self) -> bool:
        """Whether every micro-batch went through every chunk, there and back."""
        return len(self.work) == 2 * self.stages * self.micro_batches * self.interleave

    @property
    def span(self) -> float:
        """From the first pass to the end of the last."""
        return max(work.end for work in self.work)

    @property
    def busy(self) -> float:
        """Of each stage: all have the same to do."""
        return self.micro_batches * (1 + BACKWARD)

    @property
    def idle(self) -> float:
        """Share of the step that a stage waits."""
        return 1 - self.busy / self.span

    @property
    def bubble(self) -> float:
        """Waiting, beside the work itself: (p - 1) / (v·m)."""
        return self.span / self.busy - 1

    def held(self, stage: int) -> float:
        """Micro-batches whose activations a stage holds at once, at most; a chunk counts 1 / v."""
        holds, most = 0, 0
        for work in sorted((w for w in self.work if w.stage == stage), key=lambda w: w.start):
            holds += 1 if work.forward else -1
            most = max(most, holds)
        return most / self.interleave

    def headline(self) -> str:
        low, high = (times * self.stages for times in RULE)
        m = self.micro_batches
        chunks = f", {self.interleave} chunks a stage" if self.interleave > 1 else ""
        rule = "fewer than" if m < low else "more than" if m > high else "within"
        return (
            f"{self.stages} stages, {m} micro-batches{chunks}: {self.idle:.1%} of the step is idle, {self.bubble:.1%} "
            f"of the work itself; {rule} the {RULE[0]} to {RULE[1]} micro-batches for each stage that are usual; the "
            f"first stage holds {self.held(0):.3g} micro-batches at once"
        )

    def tables(self) -> tuple[Table, ...]:
        rows = [(stage, f"{self._begins(stage):g}", f"{self.busy:g}", f"{self.span - self.busy:g}",
                 f"{self.held(stage):.3g}") for stage in range(self.stages)]  # fmt: skip
        columns = ("stage", "begins", "works", "waits", "micro-batches held")
        return (Table(f"Stages over {self.span:g} forward passes of a stage", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        return (Property("a pipeline's bubble", "not verified", "by arithmetic", self.headline()),)

    def _begins(self, stage: int) -> float:
        return min(work.start for work in self.work if work.stage == stage)


def schedule(stages: int, micro_batches: int, interleave: int = 1) -> Schedule:
    """Lay out one step.

    Args:
        stages: p.
        micro_batches: m.
        interleave: v, chunks of layers that take turns on a stage.

    Raises:
        UsageError: no such pipeline: fewer micro-batches than stages, or interleaved ones that are no multiple of them.
    """
    _check(stages, micro_batches, interleave)
    orders = [list(_order(stage, stages, micro_batches, interleave)) for stage in range(stages)]
    ends: dict[tuple[int, int, bool], float] = {}  # (virtual stage, micro-batch, forward) → its end
    work: list[list[Work]] = [[] for _ in range(stages)]
    while any(len(done) < len(passes) for done, passes in zip(work, orders, strict=True)):
        for stage, (done, passes) in enumerate(zip(work, orders, strict=True)):
            while len(done) < len(passes) and (
                placed := _place(stage, stages, interleave, passes[len(done)], done, ends)
            ):
                done.append(placed)
    return Schedule(stages, micro_batches, interleave, tuple(piece for done in work for piece in done))


def _order(stage: int, stages: int, micro_batches: int, interleave: int) -> Iterator[Pass]:
    """The passes of a stage: some forward to fill the pipeline, then one forward and one backward, then the rest."""
    count = micro_batches * interleave
    fill = stages - stage - 1 if interleave == 1 else 2 * (stages - stage - 1) + (interleave - 1) * stages
    fill = min(fill, count)
    for index in range(count + fill):
        if index < count:
            yield _pass(index, stages, interleave, forward=True)
        if index >= fill:
            yield _pass(index - fill, stages, interleave, forward=False)


def _pass(index: int, stages: int, interleave: int, forward: bool) -> Pass:
    """The index-th of its direction: a group of micro-batches goes chunk after chunk, backward from the last."""
    if interleave == 1:
        return Pass(0, index, forward)
    group, rest = divmod(index, stages * interleave)
    chunk, place = divmod(rest, stages)
    return Pass(chunk if forward else interleave - 1 - chunk, group * stages + place, forward)


def _place(stage: int, stages: int, interleave: int, todo: Pass, done: list[Work],
           ends: dict[tuple[int, int, bool], float]) -> Work | None:  # fmt: skip
    """A pass as soon as its stage is free and its input there; None while the input is not."""
    virtual, last = todo.chunk * stages + stage, stages * interleave - 1
    if todo.forward:
        needs = None if virtual == 0 else (virtual - 1, todo.micro_batch, True)
    else:
        needs = (virtual, todo.micro_batch, True) if virtual == last else (virtual + 1, todo.micro_batch, False)
    if needs is not None and needs not in ends:
        return None
    start = max(done[-1].end if done else 0.0, ends[needs] if needs else 0.0)
    end = start + (1 if todo.forward else BACKWARD) / interleave
    ends[virtual, todo.micro_batch, todo.forward] = end
    return Work(stage, *todo, start, end)


def _check(stages: int, micro_batches: int, interleave: int) -> None:
    said = f"{stages} stages, {micro_batches} micro-batches, {interleave} chunks"
    if min(stages, micro_batches, interleave) < 1 or micro_batches < stages:
        raise UsageError("no such pipeline", got=said, expected="from 1 on, and as many micro-batches as stages")
    if interleave > 1 and (stages == 1 or micro_batches % stages):
        raise UsageError("no such interleaved pipeline", got=said,
                         expected="several stages, and a multiple of them in micro-batches")  # fmt: skip
    if 2 * micro_batches * interleave > LARGEST:
        raise UsageError("a schedule of so many passes is not drawn", got=said, expected=f"at most {LARGEST} a stage")
