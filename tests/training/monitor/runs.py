"""Trainings as the alarms see them: real curves, recorded by record_curves.py, with noise of other seeds on top."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mindport.training.monitor import Alarm, Evaluation, Pace, Plan, Watch
from mindport.training.step_record import StepRecord

RECORDED = json.loads(Path(__file__).with_name("curves.json").read_text())
ROWS, LENGTHS, EVERY, EVALUATE = 8, (32, 64), 10, 25


@dataclass
class Course:
    """A run to be watched; troubles are planted by changing it."""

    plan: Plan
    records: list[StepRecord]
    shapes: list[list[tuple[int, int]]]
    held_out: dict[int, float]
    memory: dict[int, float]
    load: float = 1.0
    swapped: float = 0.0

    def alarms(self) -> list[Alarm]:
        """All that ring, in order."""
        return list(self._ring(Watch(self.plan)))

    def change(self, first: int, last: int, change: Callable[[StepRecord], dict]) -> Course:
        """Change the records of the steps from `first` to `last`."""
        for index in range(first - 1, min(last, len(self.records))):
            self.records[index] = replace(self.records[index], **change(self.records[index]))
        return self

    def _ring(self, watch: Watch) -> Iterator[Alarm]:
        yield from self._evaluate(watch, 0)
        for record, shapes in zip(self.records, self.shapes, strict=True):
            yield from watch.step(record, shapes)
            yield from self._evaluate(watch, record.step)
            if record.step in self.memory:
                yield from watch.pace(self._pace(record))

    def _evaluate(self, watch: Watch, step: int) -> Iterable[Alarm]:
        if step not in self.held_out:
            return []
        loss = self.held_out[step]
        return watch.evaluation(Evaluation(step, loss, math.exp(loss), 1000, 0.1))

    def _pace(self, record: StepRecord) -> Pace:
        memory = self.memory[record.step]
        return Pace(record.step, EVERY, record.seconds, 0.0, 0.0, None, 0.0, memory, memory, self.swapped, self.load)


def healthy(kind: str, seed: int) -> Course:
    """A sound run: `scratch`, `pretrained`, `float16` (a loss scale that settles, then overflows now and then), or
    `buckets` (rows of two lengths)."""
    draw, start = random.Random(seed), "pretrained" if kind == "pretrained" else "scratch"
    curve = RECORDED[start]
    plan = Plan(start, RECORDED["vocab"], len(curve), RECORDED["warmup"], RECORDED["entropy"], kind == "float16")
    lengths = [draw.choice(LENGTHS) if kind == "buckets" else LENGTHS[-1] for _ in curve]
    steps = range(1, len(curve) + 1)
    course = Course(
        plan, [_record(draw, step, *row, length) for step, row, length in zip(steps, curve, lengths, strict=True)],
        [[(ROWS, length)] for length in lengths],
        {step: _held_out(curve, step) * draw.gauss(1, 0.001) for step in range(0, len(curve) + 1, EVALUATE)},
        {step: 900 + 60 * (step > EVERY) + abs(draw.gauss(0, 8)) for step in range(EVERY, len(curve) + 1, EVERY)},
    )  # fmt: skip
    for length in {*lengths}:
        first = lengths.index(length) + 1
        course.change(first, first, lambda record: {"compiled": 2, "seconds": 6.0})
    return _scaled(course, draw) if kind == "float16" else course


def _held_out(curve: list[list[float]], step: int) -> float:
    """A little above the training loss, and without the noise of small batches: the text is always the same."""
    return 1.02 * statistics.mean(loss for loss, *_ in curve[max(step - EVALUATE, 0) : step + EVALUATE])


def _record(draw: random.Random, step: int, loss: float, norm: float, lr: float, length: int) -> StepRecord:
    tokens = ROWS * length
    return StepRecord(
        step, loss * draw.gauss(1, 0.01), norm * math.exp(draw.gauss(0, 0.15)), lr, counted=tokens - ROWS,
        tokens=tokens, seconds=tokens / 5000 * math.exp(draw.gauss(0, 0.15)),
    )  # fmt: skip


def _scaled(course: Course, draw: random.Random) -> Course:
    """A loss scale from 65536 that first falls to 1024, then doubles after 60 steps and overflows at 4096."""
    scale, since = 65536.0, 0
    for index, record in enumerate(course.records):
        overflow = scale > 2048 or draw.random() < 0.002
        change = {"loss_scale": scale, "moved": not overflow, "norm": math.inf if overflow else record.norm}
        course.records[index] = replace(record, **change)
        since = 0 if overflow else since + 1
        if overflow or since == 60:
            scale, since = (scale / 2 if overflow else scale * 2), 0
    return course
