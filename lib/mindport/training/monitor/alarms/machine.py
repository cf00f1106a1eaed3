"""Speed, compiled graphs and memory."""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Sequence

from mindport.training.monitor.alarms.history import Finding, History, Plan
from mindport.training.step_record import StepRecord

NOW, LASTING, MOST = 10, 10.0, 100  # steps of one shape; seconds that they should last, and their number at most
BEFORE = 20  # steps of that shape at least, which they are held against
SLOW = 0.6  # of the speed before
GRACE = 2  # steps of a shape that may compile
MANY = 8  # shapes
PACES, GROWTH, LEAST, STEADY = 15, 0.05, 50.0, 0.1  # measurements; growth, relative and in MB; in each third, of it
SWAP = 50.0  # MB that nobody minds


def recompiled(history: History, plan: Plan) -> Finding | None:
    """A step compiled although its shapes had been computed before."""
    last, shapes = history.last, set(history.shapes[-1])
    if not last.compiled or not shapes or any(history.known[shape] < GRACE for shape in shapes):
        return None
    before = min(history.known[shape] for shape in shapes)
    return Finding(
        f"{last.compiled} graph(s) compiled, {last.seconds:.1f} s, for {_names(shapes)}, known from {before} steps",
        ("a Python number or string that changes is an argument of the cell, or one of its attributes",
         "a tensor's dtype changes, or a parameter was replaced by another",
         "set_train, set_grad or a hook was switched in between"),
        "give what changes as a Tensor; notebook 04 shows what a graph depends on",
    )  # fmt: skip


def many_shapes(history: History, plan: Plan) -> Finding | None:
    """Every length of rows is another graph."""
    shapes = set(history.known) | set(history.shapes[-1])
    if len(shapes) <= MANY or not history.last.compiled:
        return None
    return Finding(
        f"{len(shapes)} shapes of rows so far, each a graph to compile; the last {_names(set(history.shapes[-1]))}",
        ("rows are not padded to a fixed length", "the last batch of each epoch is smaller",
         "there are too many buckets"),
        "data.layout: packed, or a few data.buckets",
    )  # fmt: skip


def slow(history: History, plan: Plan) -> Finding | None:
    """Steps of the same shape give fewer tokens a second than before."""
    alike = [record for record in history.alike(2 * MOST) if record.seconds > 0]
    count = _lasting(alike)
    if len(alike) - count < BEFORE:
        return None
    rates = [record.tokens / record.seconds for record in alike]
    now, before = statistics.median(rates[-count:]), statistics.median(rates[:-count])
    if now >= SLOW * before:
        return None
    return Finding(
        f"{now:,.0f} tokens/s in the last {count} steps of this shape, {before:,.0f} before",
        tuple(_causes_of_slowness(history)),
        "look at the machine (top, free); mindport.tuning.profile_step shows where the time goes",
    )


def _lasting(steps: Sequence[StepRecord]) -> int:
    """How many of the last steps are looked at together: a hiccup of a second is no trouble."""
    seconds = list(itertools.accumulate(record.seconds for record in reversed(steps)))
    enough = next((count for count, total in enumerate(seconds, 1) if total >= LASTING), MOST)
    return min(max(enough, NOW), MOST)


def _causes_of_slowness(history: History) -> list[str]:
    """What the figures speak for comes first."""
    paces, cores = history.paces[-2:], os.cpu_count() or 1
    causes = {
        "graphs are compiled in between: see `recompiled`": sum(bool(r.compiled) for r in history.steps[-NOW:]) > 1,
        "memory is short, and the machine swaps": any(pace.swapped > SWAP for pace in paces),
        f"another program uses the {cores} cores": any(pace.load > 1.5 * cores + 1 for pace in paces),
        "the data is slow to come: its disk, or its workers": False,
        "the processor is throttled: heat, or a quota": False,
    }
    told = {f"load {paces[-1].load:.1f}, {paces[-1].swapped:.0f} MB swapped" for _ in paces[-1:]}
    first = [cause + "".join(f" ({figures})" for figures in told) for cause, speaks in causes.items() if speaks]
    return first + [cause for cause, speaks in causes.items() if not speaks]


def leaking(history: History, plan: Plan) -> Finding | None:
    """Memory grows and grows: in each third of the last measurements, not in a jump or two."""
    memory = [pace.memory for pace in history.paces[-PACES:]]
    if len(memory) < PACES or _compiling(history):
        return None
    size, grown = PACES // 3, memory[-1] - memory[0]
    thirds = [memory[start : start + size] for start in range(0, PACES, size)]
    steady = all(third[-1] - third[0] > STEADY * grown for third in thirds)
    higher = all(max(before) < min(after) for before, after in itertools.pairwise(thirds))
    if grown < max(LEAST, GROWTH * memory[0]) or not (steady and higher):
        return None
    return Finding(
        f"{memory[0]:,.0f} MB at step {history.paces[-PACES].step}, {memory[-1]:,.0f} MB at step {history.last.step}, "
        "and growing all the time",
        ("tensors are kept: losses in a list without .asnumpy(), results in a callback",
         "more data is held than is used: a cache, or too many workers"),
        "leave the callbacks out, then the evaluation, until it stops growing",
    )  # fmt: skip


def _compiling(history: History) -> bool:
    """Whether graphs, which take memory, were made between the measurements."""
    return any(pace.compiling for pace in history.paces[-PACES + 1 :])


def _names(shapes: set[tuple[int, int]]) -> str:
    return ", ".join(f"{rows} × {tokens}" for rows, tokens in sorted(shapes)) + " tokens"
