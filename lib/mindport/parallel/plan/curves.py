"""Numbers for curves: scaling, bubble, memory by sequence, ZeRO, traffic. All of them estimates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mindport.errors import UsageError
from mindport.mindformers.layout import Layout
from mindport.parallel.plan.collectives import Group, rounds
from mindport.parallel.plan.grid import as_grid
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.memory import stage_parameters, worst_stages
from mindport.parallel.plan.planner import evaluate, plan
from mindport.parallel.plan.step_time import data_traffic

CARDS = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Scaled:
    """The fastest layout for so many cards; None and 0 where nothing fits.

    Attributes:
        devices, global_batch: of the job.
        layout: the fastest.
        tokens_per_second: of all cards.
        efficiency: tokens a second of a card, relative to the first number of cards that fits.
    """

    devices: int
    global_batch: int
    layout: Layout | None
    tokens_per_second: float
    efficiency: float


def scaling(job: Job, cards: Sequence[int] = CARDS, weak: bool = False) -> tuple[Scaled, ...]:
    """Strong scaling (the global batch stays) or weak (it grows with the cards, from that of the first)."""
    found: list[Scaled] = []
    first = 0.0
    for devices in cards:
        batch = job.global_batch * devices // cards[0] if weak else job.global_batch
        best = plan(replace(job, devices=devices, global_batch=batch), keep=1).best
        rate = best.tokens_per_second if best else 0.0
        first = first or rate
        found.append(Scaled(devices, batch, best and best.layout, rate * devices, rate / first if first else 0.0))
    return tuple(found)


def bubble(stages: int, micro_batches: int, interleave: int = 1) -> float:
    """Idle share of a step: (p - 1) / (v·m + p - 1), where v chunks of layers take turns on a stage.

    Beside the work itself it is (p - 1) / (v·m): what an interleaved schedule divides by v.

    Raises:
        UsageError: not numbers from 1 on, or fewer micro-batches than stages.
    """
    if min(stages, micro_batches, interleave) < 1 or micro_batches < stages:
        raise UsageError("no such pipeline", got=f"{stages} stages, {micro_batches} micro-batches, {interleave} chunks",
                         expected="from 1 on, and as many micro-batches as stages")  # fmt: skip
    return (stages - 1) / (interleave * micro_batches + stages - 1)


def memory_by_sequence(job: Job, layout: Layout, lengths: Iterable[int]) -> tuple[tuple[int, dict[str, float]], ...]:
    """Bytes by part on the fullest card for each sequence length; rotary positions may go beyond the context.

    Raises:
        ConfigError: a length is beyond a learned table of positions.
    """
    lengths, model = tuple(lengths), job.model
    if model.position == "rope":
        model = replace(model, max_position_embeddings=max(*lengths, model.max_position_embeddings))
    return tuple((seq, evaluate(replace(job, model=model, seq=seq), layout).memory) for seq in lengths)


def zero_memory(
    parameters: int, replicas: int, element: int = 2, master: float = 4, moments: float = 8
) -> tuple[dict[str, float], ...]:
    """Bytes of weights, gradients and optimizer on a card for ZeRO 0 to 3: 16, 4 + 12/d, 2 + 14/d, 16/d a parameter."""
    sizes = {"optimizer": master + moments, "gradients": element, "weights": element}  # in the order ZeRO shares out
    return tuple(
        {
            name: parameters * size / (replicas if stage > order else 1)
            for order, (name, size) in enumerate(sizes.items())
        }
        for stage in range(4)
    )


@dataclass(frozen=True)
class Traffic:
    """Seconds and share of a step that exchanging gradients takes.

    Attributes:
        how: what was done about it.
        messages: exchanges in a step.
        seconds: what is not hidden.
        share: of the step.
    """

    how: str
    messages: int
    seconds: float
    share: float


def traffic(job: Job, layout: Layout, buckets: int = 4, overlap: float = 0.5) -> tuple[Traffic, ...]:
    """Gradients a tensor at a time, fused into buckets, and with a share of that hidden behind the backward pass."""
    grid = as_grid(job, layout)
    held = stage_parameters(job, grid.columns, worst_stages(grid)).max(axis=1)
    group = Group(grid.replicas, grid.tp)
    bytes_only = replace(job, hardware=job.hardware.with_values({"latency": 0.0}))
    moving = float(data_traffic(bytes_only, grid, held)[0])
    wait = 2 * float(rounds(group.size)[0]) * job.hardware["latency"]
    times = evaluate(job, layout).time
    rest = sum(times.values()) - times["data traffic"]
    tensors = job.size.layer.tensors * -(-job.size.layers // layout.pp) + job.size.embedding.tensors
    cases = (("each tensor by itself", tensors, 0.0), (f"fused into {buckets}", buckets, 0.0),
             (f"fused into {buckets}, {overlap:.0%} hidden", buckets, overlap))  # fmt: skip
    seconds = [(how, count, (moving + count * wait) * (1 - hidden)) for how, count, hidden in cases]
    return tuple(Traffic(how, count, spent, spent / (rest + spent)) for how, count, spent in seconds)


def speedup_limit(share: float) -> float:
    """How much faster a step can get when a share of it disappears (Amdahl)."""
    return float(np.inf) if share >= 1 else 1 / (1 - share)
