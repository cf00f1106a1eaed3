"""A layout in MindSpore Transformers' words, and back: the one place that knows both.

The planner shows `settings`, the exporter puts them into the sections of a YAML, `layout_of` reads them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mindport.errors import ConfigError
from mindport.mindformers.layout import Layout

RESHARD = {2: "never", 3: "always"}  # reshard_after_forward_policy of the PyNative schema, by ZeRO stage
METHODS = {"colossalai_cp": "colossal", "ulysses_cp": "ulysses"}  # of context parallelism, graph → PyNative schema


def settings(layout: Layout, batch: int, kv_heads: int) -> dict[str, Any]:
    """The layout in the graph schema's words.

    Args:
        layout: the degrees.
        batch: samples of a micro-batch.
        kv_heads: key/value heads of the model.
    """
    pipeline, parts = layout.pp > 1, layout.micro_batches
    return {
        "data_parallel": layout.dp, "model_parallel": layout.tp, "pipeline_stage": layout.pp,
        "context_parallel": layout.cp, "context_parallel_algo": context_algorithm(layout, kv_heads),
        "use_seq_parallel": layout.sequence_parallel, "micro_batch_num": parts if pipeline else 1,
        "pp_interleave_num": layout.interleave, "pipeline_interleave": layout.interleave > 1,
        "gradient_accumulation_steps": 1 if pipeline else parts, "batch_size": batch,
        "enable_parallel_optimizer": layout.zero > 0, "gradient_accumulation_shard": layout.zero >= 2,
        "recompute": layout.recompute == "full", "select_recompute": layout.recompute == "selective",
    }  # fmt: skip


def unsaid(layout: Layout, schema: str = "graph") -> str:
    """What no YAML of a schema says of a layout; empty when it says all."""
    if schema == "pynative":
        if layout.interleave > 1:
            return "its pipelines have one chunk of layers a stage"
        if layout.zero == 1 or (layout.zero == 0 and layout.cp > 1):
            return "its replicas share out gradients with the optimizer, and contexts are replicas: zero2 or zero3"
        if layout.tp > 1 and not layout.sequence_parallel:
            return "tensor parallelism splits the sequence there, whatever the setting says: sp"
        return "selective recomputation names modules there: full, or none" if layout.recompute == "selective" else ""
    if layout.zero == 3:
        return "ZeRO-3 is MindSpore's optimizer_level: level3, which no published YAML sets"
    if layout.devices == 1 and layout.micro_batches > 1:
        return "on one device it sets gradient_accumulation_steps back to 1"
    return ""


def ulysses(cp: Any, tp: Any, kv_heads: int) -> Any:
    """Where context parallelism can exchange heads: cp · mp ≤ key/value heads, and divides them. Numbers or arrays."""
    return (cp * tp <= kv_heads) & (kv_heads % (cp * tp) == 0)


def context_algorithm(layout: Layout, kv_heads: int) -> str:
    """`ulysses_cp` where the key/value heads allow it, the ring of `colossalai_cp` elsewhere."""
    return "ulysses_cp" if layout.cp > 1 and ulysses(layout.cp, layout.tp, kv_heads) else "colossalai_cp"


def layout_of(sections: Mapping[str, Any]) -> Layout:
    """The layout that a YAML of either schema asks for.

    Raises:
        ConfigError: a section or a key of the layout is missing.
    """
    try:
        return (_of_pynative if "parallelism" in sections else _of_graph)(sections)
    except KeyError as missing:
        raise ConfigError("no layout in these sections", got=f"no {missing}",
                          expected="a YAML as `mindport export` writes it") from None  # fmt: skip


def _of_graph(sections: Mapping[str, Any]) -> Layout:
    degrees, parallel, again = sections["parallel_config"], sections["parallel"], sections["recompute_config"]
    parts = degrees["micro_batch_num"] if degrees["pipeline_stage"] > 1 else (
        sections["runner_config"]["gradient_accumulation_steps"]
    )  # fmt: skip
    zero = 0
    if parallel["enable_parallel_optimizer"]:
        zero = 2 if parallel["parallel_optimizer_config"]["gradient_accumulation_shard"] else 1
    return Layout(
        degrees["data_parallel"], degrees["model_parallel"], degrees["pipeline_stage"], degrees["context_parallel"],
        zero, degrees["use_seq_parallel"],
        "full" if again["recompute"] else "selective" if again["select_recompute"] else "none", parts,
        sections["model"]["model_config"].get("pp_interleave_num", 1),
    )  # fmt: skip


def _of_pynative(sections: Mapping[str, Any]) -> Layout:
    """The number of copies is nowhere; it follows from the batch."""
    degrees, training = sections["parallelism"], sections["training"]
    parts = degrees["pipeline_parallel_microbatch_size"]
    stages = {policy: zero for zero, policy in RESHARD.items()}
    return Layout(
        training["global_batch_size"] // (training["local_batch_size"] * parts), degrees["tensor_parallel"],
        degrees["pipeline_parallel"], degrees["context_parallel"],
        stages.get(degrees.get("reshard_after_forward_policy", ""), 0), degrees["sequence_parallel"],
        "full" if sections["recompute"]["mode"] == "full" else "none", parts,
    )  # fmt: skip
