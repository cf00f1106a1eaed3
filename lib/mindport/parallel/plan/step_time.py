"""Time of an optimizer step by part, for every layout at once.

A stage spends on a micro-batch what its matrix products take at `efficiency` of the peak (the one fitted constant; less
where a card's share of a matrix is narrow), its recomputation, and the traffic of tensor and context parallelism that
nothing hides. A pipeline takes micro-batches + stages - 1 times its slowest stage: the last term is the bubble,
(p - 1) / m of the rest. Interleaved, it waits for chunks of a stage only, (p - 1) / (v·m), and sends v times as often
(Narayanan et al. 2021, arXiv:2104.04473).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.mindformers.settings import ulysses
from mindport.mindformers.stages import layers_of
from mindport.parallel.plan.collectives import Group, all_reduce, gather, send
from mindport.parallel.plan.grid import FULL, SELECTIVE, Grid
from mindport.parallel.plan.job import Job
from mindport.parallel.plan.memory import activations, stage_parameters

PARTS = ("compute", "recompute", "tensor traffic", "context traffic", "pipeline traffic", "bubble", "data traffic",
         "optimizer")  # fmt: skip
SLOT = PARTS[:5]  # what a micro-batch costs a stage
Columns = np.ndarray  # (N, S): layouts × stages


@dataclass(frozen=True)
class _Micro:
    """What the parts of a micro-batch share.

    Attributes:
        grid: as columns, (N, 1).
        stage: (N, S).
        layers: of each stage, (N, S).
        again: how many of them are recomputed, (N, S).
        tokens: of a micro-batch on a card, (N, 1).
        speed: FLOP/s that are reached, (N, 1).
    """

    grid: Grid
    stage: Columns
    layers: Columns
    again: Columns
    tokens: np.ndarray
    speed: np.ndarray


def step_time(job: Job, grid: Grid, stage: np.ndarray, recomputed: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Seconds by part, each (N,); the arguments are those of `memory`."""
    g = grid.columns
    layers = layers_of(job.size.layers, g.pp, stage)
    again = np.where(g.recompute > 0, layers if recomputed is None else np.minimum(recomputed, layers), 0)
    micro = _Micro(g, stage, layers, again, g.batch * job.seq / g.cp, speed(job, g))
    parts = _slot(job, micro)
    slowest = np.argmax(sum(parts.values()), axis=1)[:, None]
    times = {name: np.take_along_axis(part, slowest, axis=1)[:, 0] for name, part in parts.items()}
    slot, count = sum(times.values()), np.maximum(grid.micro_batches, 1)
    times = {name: count * part for name, part in times.items()}
    times["bubble"] = (grid.pp - 1) * slot / grid.interleave
    heaviest = stage_parameters(job, g, stage).max(axis=1)
    times["data traffic"] = data_traffic(job, grid, heaviest) * (1 - job.hardware["dp_overlap"])
    times["optimizer"] = _optimizer(job, grid, heaviest)
    return {name: times[name] for name in PARTS}


def step_seconds(parts: dict[str, np.ndarray]) -> np.ndarray:
    """All parts together."""
    return np.sum([parts[name] for name in PARTS], axis=0)


def speed(job: Job, grid: Grid) -> np.ndarray:
    """FLOP/s that matrix products reach: the narrower a card's share of a matrix, the fewer."""
    width = min(job.model.dims["q"], job.model.dims["f"]) / grid.tp
    return job.peak * job.hardware["efficiency"] * width / (width + job.hardware["half_width"])


def _slot(job: Job, micro: _Micro) -> dict[str, Columns]:
    """Seconds that a stage spends on a micro-batch, forward and backward, (N, S) each."""
    parts = {
        "compute": _compute(job, micro),
        "recompute": _recompute(job, micro),
        "tensor traffic": _tensor(job, micro),
        "context traffic": _context(job, micro),
        "pipeline traffic": _pipeline(job, micro),
    }
    return {name: np.broadcast_to(part, micro.stage.shape) for name, part in parts.items()}


def _compute(job: Job, m: _Micro) -> Columns:
    layer = 6 * job.size.matrices + job.size.attention_flops(job.seq)
    head = (m.stage == m.grid.pp - 1) * 6 * job.size.table
    return m.tokens * (m.layers * layer + head) / m.grid.tp / m.speed


def _recompute(job: Job, m: _Micro) -> Columns:
    """A forward pass more; selectively, the scores, or reading and writing what is cheap to compute."""
    forward = (6 * job.size.matrices + job.size.attention_flops(job.seq)) / 3 / m.grid.tp / m.speed
    saved = activations(job)
    cheap = saved.cheap_whole / np.where(m.grid.sp == 1, m.grid.tp, 1) + saved.cheap_split / m.grid.tp
    some = 2 * cheap / job.hardware["hbm"]
    if not job.fused:
        some = some + job.size.attention_flops(job.seq) / 3 / m.grid.tp / m.speed
    cost = np.select([m.grid.recompute == FULL, m.grid.recompute == SELECTIVE], [forward, some], 0)
    return m.tokens * m.again * cost


def _tensor(job: Job, m: _Micro) -> Columns:
    """Four all-reduces of the hidden states a layer, six when it is recomputed.

    With sequence parallelism each is a gather and a scatter: the same bytes.
    """
    count = 4 * m.layers + 2 * m.again * (m.grid.recompute == FULL)
    each = all_reduce(job, job.element * m.tokens * job.model.hidden_size, Group(m.grid.tp, np.ones_like(m.grid.tp)))
    return count * each * (1 - job.hardware["tp_overlap"])


def _context(job: Job, m: _Micro) -> Columns:
    """Heads exchanged for tokens (Ulysses), or keys and values sent round (ring): forward once, backward twice."""
    group, dims = Group(m.grid.cp, m.grid.tp), job.model.dims
    wide = job.element * m.tokens / m.grid.tp
    exchanged = 2 * (gather(job, wide * dims["q"], group) + gather(job, wide * dims["k"], group))
    ring = (m.grid.cp - 1) * send(job, 2 * wide * dims["k"], m.grid.tp) * 1.5
    times = m.layers * 2 + m.again * (m.grid.recompute == FULL)
    each = np.where(ulysses(m.grid.cp, m.grid.tp, job.model.num_key_value_heads), exchanged, ring)
    return np.where(m.grid.cp > 1, times * each, 0) * (1 - job.hardware["cp_overlap"])


def _pipeline(job: Job, m: _Micro) -> Columns:
    """Hidden states to the next stage, their gradient back; as often as chunks of layers take turns."""
    count = job.element * m.tokens * job.model.hidden_size / np.where(m.grid.sp == 1, m.grid.tp, 1)
    each = send(job, count, m.grid.tp * m.grid.cp * m.grid.dp)
    return np.where(m.grid.pp > 1, 2 * m.grid.interleave * each, 0) * (1 - job.hardware["pp_overlap"])


def data_traffic(job: Job, grid: Grid, held: np.ndarray) -> np.ndarray:
    """Seconds of gradients and weights between replicas, nothing hidden.

    A step exchanges 2 Ψ elements without ZeRO and with stage 1; stage 2 scatters the gradients of every micro-batch,
    stage 3 gathers the weights twice for each as well.
    """
    count = np.maximum(grid.micro_batches, 1)
    passes = np.select([grid.zero == 2, grid.zero == 3], [count + 1, 3 * count], 2)
    return passes * gather(job, job.element * held, Group(grid.replicas, grid.tp))


def _optimizer(job: Job, grid: Grid, held: np.ndarray) -> np.ndarray:
    """Seconds to read and write weight, gradient and states once."""
    share = held / np.where(grid.zero > 0, grid.replicas, 1)
    return 2 * share * (2 * job.element + job.master + job.hardware["moments"]) / job.hardware["hbm"]
