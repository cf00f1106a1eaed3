"""Memory of a card by part, for every layout and pipeline stage at once.

States: 16 bytes a parameter (weight 2, gradient 2, float32 copy 4, moments 8), shared out by ZeRO: 4 + 12/d with
stage 1, 2 + 14/d with stage 2, 16/d with stage 3. Activations: what the backward pass of each operator reads
(Korthikanti et al. 2022, arXiv:2205.05198), tensor by tensor, so that gated MLPs, grouped heads and fused attention
come out as well as the paper's GPT. A stage of a pipeline holds those of min(stages - stage, micro-batches) at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.mindformers.stages import layers_of
from mindport.parallel.plan.grid import FULL, SELECTIVE, Grid
from mindport.parallel.plan.job import Job

PARTS = ("weights", "gradients", "optimizer", "activations", "recomputed layer", "logits and loss",
         "communication buffers", "margin")  # fmt: skip
Columns = np.ndarray  # (N, S): layouts × stages


@dataclass(frozen=True)
class Activations:
    """Bytes that one layer keeps for a token.

    Attributes:
        whole: norms, residuals and dropout masks, which only sequence parallelism splits.
        split: what tensor parallelism splits.
        cheap_whole, cheap_split: the share that selective recomputation does not keep: scores; with fused attention
            the outputs of norms, of the activation function and of the gate, as MindSpore Transformers has it.
        boundary: the layer's input, all that full recomputation keeps.
    """

    whole: float
    split: float
    cheap_whole: float
    cheap_split: float
    boundary: float

    def kept(self, grid: Grid, selective: Columns | bool, full: Columns | bool) -> Columns:
        """Bytes a token on a card, (N, S)."""
        over = np.where(grid.sp == 1, grid.tp, 1)
        everything = self.whole / over + self.split / grid.tp
        less = everything - self.cheap_whole / over - self.cheap_split / grid.tp
        return np.where(full, self.boundary / over, np.where(selective, less, everything))


def activations(job: Job) -> Activations:
    """Of one layer of this model."""
    c, e, dims = job.model, job.element, job.model.dims
    norm = 4 if c.norm == "rms" else e  # an RMS norm is computed in float32
    norms = 1 if c.parallel_residual else 2
    masks = 2 * dims["d"] if c.resid_pdrop > 0 else 0
    outputs = 2 * e * dims["d"]  # two: what projections of q, k, v and of the MLP read
    hidden = (4 if c.gated_mlp else 2) * e * dims["f"]
    heads = e * (2 * dims["q"] + 2 * dims["k"]) + (4 * (dims["q"] + dims["k"]) if c.qk_norm else 0)
    scores = 0.0 if job.fused else _scores(job)
    cheap = (outputs, hidden / 2) if job.fused else (0.0, scores)
    return Activations(norms * norm * dims["d"] + outputs + masks, hidden + heads + scores, *cheap, e * dims["d"])


def worst_stages(grid: Grid) -> np.ndarray:
    """(N, 3): the first, the second and the last stage; every other one holds no more than the second."""
    return np.stack([np.zeros_like(grid.pp), np.minimum(1, grid.pp - 1), grid.pp - 1], axis=1)


def stage_parameters(job: Job, grid: Grid, stage: np.ndarray) -> np.ndarray:
    """Parameters on a card of a stage, (N, S); `grid` as columns."""
    s, last = job.size, stage == grid.pp - 1
    copy = s.table * (s.tied & last & (grid.pp > 1))
    first = (stage == 0) * (s.embedding.split / grid.tp + s.embedding.whole)
    end = last * (s.head.split / grid.tp + s.head.whole) + copy / grid.tp
    return layers_of(s.layers, grid.pp, stage) * (s.layer.split / grid.tp + s.layer.whole) + first + end


def memory(job: Job, grid: Grid, stage: np.ndarray, recomputed: np.ndarray | None = None) -> dict[str, Columns]:
    """Bytes by part, each (N, S).

    Args:
        job: what is laid out.
        grid: N layouts.
        stage: (N, S), the pipeline stages that are looked at.
        recomputed: layers of each stage that are recomputed, (N, S); None for all of them.
    """
    g, element = grid.columns, job.element
    held, shared = stage_parameters(job, g, stage), g.replicas
    tokens = g.batch * job.seq / g.cp
    layer = job.size.layer.split / g.tp + job.size.layer.whole
    logits = (stage == g.pp - 1) * tokens * job.model.vocab_rows / g.tp * (element + 8)  # and in float32, twice
    saved = activations(job)
    again = (g.recompute == FULL) * tokens * saved.kept(g, False, False)
    parts = {
        "weights": element * held / np.where(g.zero == 3, shared, 1),
        "gradients": element * held / np.where(g.zero >= 2, shared, 1),
        "optimizer": _optimizer(job, g) * held / np.where(g.zero >= 1, shared, 1),
        "activations": tokens * _in_flight(g, stage) * _kept(job, g, stage, recomputed),
        # after the loss the logits are free, so that what is computed again takes their place
        "recomputed layer": np.maximum(again - logits, 0),
        "logits and loss": logits,
        "communication buffers": _buffers(job, g, tokens, layer),
    }
    total = sum(np.broadcast_to(part, stage.shape) for part in parts.values())
    parts["margin"] = job.hardware["margin"] * total
    return {name: np.broadcast_to(parts[name], stage.shape) for name in PARTS}


def total(parts: dict[str, Columns]) -> Columns:
    """All parts together."""
    return np.sum([parts[name] for name in PARTS], axis=0)


def _scores(job: Job) -> float:
    """Bytes of a token's attention weights: after the softmax; with dropout also the mask, and what it leaves.

    A window masks keys, and keeps their scores.
    """
    c, e = job.model, job.element
    return c.num_attention_heads * job.seq * (e + (1 + e) * (c.attn_pdrop > 0))


def _optimizer(job: Job, g: Grid) -> np.ndarray:
    """Bytes a parameter; half-precision parameters that are gathered have their own shard as well."""
    shard = job.element * ((g.zero >= 1) & (g.zero < 3) & (job.master == 0))
    return job.master + job.hardware["moments"] + shard


def _in_flight(g: Grid, stage: np.ndarray) -> np.ndarray:
    """Micro-batches whose activations a stage holds at once (one forward, one backward).

    Interleaved, the first stage holds (p - 1) / v more: p · (1 + (p - 1) / (p·v)), as the paper has it.
    """
    plain = np.minimum(g.pp - stage, g.micro_batches)
    chunks = 2 * (g.pp - stage - 1) + (g.interleave - 1) * g.pp + 1
    interleaved = np.minimum(chunks / g.interleave, g.micro_batches)
    return np.select([g.pp == 1, g.interleave > 1], [1, interleaved], plain)


def _kept(job: Job, g: Grid, stage: np.ndarray, recomputed: np.ndarray | None) -> np.ndarray:
    """Bytes a token that the layers of a stage keep."""
    layers, saved = layers_of(job.size.layers, g.pp, stage), activations(job)
    some = layers if recomputed is None else np.minimum(recomputed, layers)
    kept = saved.kept(g, g.recompute == SELECTIVE, g.recompute == FULL)
    return some * kept + (layers - some) * saved.kept(g, False, False)


def _buffers(job: Job, g: Grid, tokens: np.ndarray, layer: np.ndarray) -> np.ndarray:
    """What is on its way: gathered activations, a pipeline's sends and receives, a layer's gradients or weights."""
    hidden = job.element * tokens * job.model.hidden_size
    tensor = np.where(g.tp > 1, 2 * hidden, 0)
    pipeline = np.where(g.pp > 1, 2 * hidden / np.where(g.sp == 1, g.tp, 1), 0)
    data = job.element * layer * np.select([g.zero == 3, g.zero == 2, g.replicas > 1], [3, 1, 1], 0)
    return tensor + pipeline + data
