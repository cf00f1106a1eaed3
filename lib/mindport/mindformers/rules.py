"""What MindSpore Transformers and a model ask of a layout: a rule has a reason, and says which layouts break it.

A rule looks at numbers, of one `Layout` or of the planner's columns of many, so that neither has rules of its own.
Source: mindformers 1.9.0, trainer/base_trainer.py and modules/transformer/op_parallel_config.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mindport.config import ModelConfig
from mindport.config.constraints import Constraint


@dataclass(frozen=True)
class Asked:
    """What a layout is held to besides the number of devices; the planner's `Job` is one too.

    Attributes:
        model: the configuration.
        seq: tokens of a sample.
        fused: whether attention keeps no scores.
    """

    model: ModelConfig
    seq: int
    fused: bool = True


@dataclass(frozen=True)
class Rule:
    """A rule of the settings.

    Attributes:
        name: the rule, in the settings' words.
        reason: what is wrong with a layout that breaks it; formatted with `numbers`.
        broken: (asked, layout) → whether it is; for columns of layouts: which of them do.
    """

    name: str
    reason: str
    broken: Callable[[Any, Any], Any]

    def hold(self, asked: Any, layout: Any) -> Constraint:
        """The rule with its outcome for one layout."""
        reason = self.reason.format(**numbers(asked)) if self.broken(asked, layout) else ""
        return Constraint(self.name, "failed" if reason else "pass", reason or "holds", self.name,
                          "mindport plan CONFIG --devices N ranks the layouts that fit" if reason else "")  # fmt: skip


RULES = (
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


def numbers(asked: Any) -> dict[str, int]:
    """What reasons are formatted with."""
    model = asked.model
    return {"heads": model.num_attention_heads, "kv": model.num_key_value_heads, "ffn": model.intermediate_size,
            "vocab": model.vocab_rows, "layers": model.num_hidden_layers, "seq": asked.seq}  # fmt: skip
