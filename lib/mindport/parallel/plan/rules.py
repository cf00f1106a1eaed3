"""What MindSpore Transformers and the model ask of a layout; a rule has a reason, and the layouts that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mindport.parallel.plan.grid import Grid
from mindport.parallel.plan.job import Job


@dataclass(frozen=True)
class Rule:
    """A rule of the settings.

    Attributes:
        name: the rule, in the settings' words.
        reason: what is wrong with a layout that breaks it; formatted with the job's numbers.
        broken: which layouts break it.
    """

    name: str
    reason: str
    broken: Callable[[Job, Grid], np.ndarray]


@dataclass(frozen=True)
class Refused:
    """Layouts that a rule refuses: how many, counted under the first rule that they break, and one of them."""

    rule: str
    reason: str
    count: int
    example: str


RULES = (
    Rule("global batch", "the global batch {batch} is no multiple of replicas × micro-batch",
         lambda job, g: g.batch == 0),
    Rule("heads % mp", "{heads} attention heads do not divide by tensor parallelism",
         lambda job, g: job.model.num_attention_heads % g.tp != 0),
    Rule("kv heads % mp", "{kv} key/value heads do not divide by tensor parallelism",
         lambda job, g: job.model.num_key_value_heads % g.tp != 0),
    Rule("ffn % mp", "intermediate_size {ffn} does not divide by tensor parallelism",
         lambda job, g: job.model.intermediate_size % g.tp != 0),
    Rule("vocab % mp", "{vocab} rows of the vocabulary do not divide by tensor parallelism",
         lambda job, g: job.model.vocab_rows % g.tp != 0),
    Rule("layers >= pipeline_stage", "{layers} layers are fewer than the stages",
         lambda job, g: job.model.num_hidden_layers < g.pp),
    Rule("micro_batch_num >= pipeline_stage", "fewer micro-batches than stages",
         lambda job, g: (g.pp > 1) & (g.micro_batches < g.pp)),
    Rule("pp_interleave_num needs pipeline_stage > 1", "chunks of layers take turns on stages, and there is one",
         lambda job, g: (g.interleave > 1) & (g.pp == 1)),
    Rule("layers % (pipeline_stage * pp_interleave_num)", "{layers} layers are no equal chunks for each stage",
         lambda job, g: (g.interleave > 1) & (job.model.num_hidden_layers % (g.pp * g.interleave) != 0)),
    Rule("micro_batch_num % pipeline_stage", "an interleaved pipeline takes as many micro-batches at a time as stages",
         lambda job, g: (g.interleave > 1) & (g.micro_batches % g.pp != 0)),
    Rule("use_seq_parallel needs mp > 1", "sequence parallelism splits over tensor-parallel ranks, and there is one",
         lambda job, g: (g.sp == 1) & (g.tp == 1)),
    Rule("seq % cp", "{seq} tokens do not divide by context parallelism",
         lambda job, g: job.seq % g.cp != 0),
    Rule("seq % (cp * mp)", "a context's share of {seq} tokens does not divide by tensor parallelism",
         lambda job, g: (g.sp == 1) & (job.seq % (g.cp * g.tp) != 0)),
    Rule("zero needs replicas", "optimizer sharding shares out over replicas, and there is one",
         lambda job, g: (g.zero > 0) & (g.replicas == 1)),
    Rule("zero 3 without a pipeline", "gathering weights for every micro-batch of a pipeline is not planned",
         lambda job, g: (g.zero == 3) & (g.pp > 1)),
    Rule("context parallelism needs fused attention", "scores are kept whole",
         lambda job, g: (g.cp > 1) & (not job.fused)),
)  # fmt: skip


def legal(job: Job, grid: Grid) -> tuple[np.ndarray, tuple[Refused, ...]]:
    """Which layouts break no rule, and the others by the first rule that they break."""
    good, refused = np.ones(len(grid), dtype=bool), []
    for rule in RULES:
        broken = good & rule.broken(job, grid)
        if count := int(broken.sum()):
            example = str(grid.layout(int(broken.argmax())))
            refused.append(Refused(rule.name, rule.reason.format(**_numbers(job)), count, example))
        good &= ~broken
    return good, tuple(refused)


def expressible(grid: Grid, row: int) -> str:
    """What MindSpore Transformers' YAML does not offer of a layout, or "yes"."""
    if grid.zero[row] == 3:
        return "no: ZeRO-3 is MindSpore's optimizer_level: level3, which no published YAML sets"
    return "yes"


def settings(grid: Grid, row: int, job: Job) -> dict[str, object]:
    """The layout in MindSpore Transformers' words."""
    pipeline, zero = int(grid.pp[row]) > 1, int(grid.zero[row])
    parts = int(grid.micro_batches[row])
    return {
        "data_parallel": int(grid.dp[row]), "model_parallel": int(grid.tp[row]), "pipeline_stage": int(grid.pp[row]),
        "context_parallel": int(grid.cp[row]), "context_parallel_algo": context_algorithm(job, grid, row),
        "use_seq_parallel": bool(grid.sp[row]), "micro_batch_num": parts if pipeline else 1,
        "pp_interleave_num": int(grid.interleave[row]), "pipeline_interleave": int(grid.interleave[row]) > 1,
        "gradient_accumulation_steps": 1 if pipeline else parts, "batch_size": int(grid.batch[row]),
        "enable_parallel_optimizer": zero > 0, "gradient_accumulation_shard": zero >= 2,
        "recompute": int(grid.recompute[row]) == 2, "select_recompute": int(grid.recompute[row]) == 1,
    }  # fmt: skip


def ulysses(job: Job, grid: Grid) -> np.ndarray:
    """Where context parallelism can exchange heads: cp · mp ≤ key/value heads, and divides them."""
    kv = job.model.num_key_value_heads
    return (grid.cp * grid.tp <= kv) & (kv % (grid.cp * grid.tp) == 0)


def context_algorithm(job: Job, grid: Grid, row: int) -> str:
    """`ulysses_cp` where the key/value heads allow it, the ring of `colossalai_cp` elsewhere."""
    return "ulysses_cp" if grid.cp[row] > 1 and ulysses(job, grid)[row] else "colossalai_cp"


def _numbers(job: Job) -> dict[str, int]:
    model = job.model
    return {"batch": job.global_batch, "heads": model.num_attention_heads, "kv": model.num_key_value_heads,
            "ffn": model.intermediate_size, "vocab": model.vocab_rows, "layers": model.num_hidden_layers,
            "seq": job.seq}  # fmt: skip
