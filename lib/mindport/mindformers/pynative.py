"""The YAML of the PyNative schema, mindformers 2.x: other sections, a flat model with Hugging Face's keys.

Source: mindformers 2.0.0, pynative/config/config.py; an unknown key stops it in every section but model, optimizer,
lr_scheduler and dataloader.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindport.config import ModelConfig
from mindport.mindformers.data import COLUMNS, megatron
from mindport.mindformers.layout import Layout
from mindport.mindformers.networks import TRAINED, mcore_section
from mindport.mindformers.recipe import Recipe
from mindport.mindformers.settings import METHODS, RESHARD, settings
from mindport.mindformers.stages import split

_NOT_THE_MODEL = ("architectures", "torch_dtype", "transformers_version", "use_cache", "_name_or_path")


def pynative(
    directory: Path, config: ModelConfig, raw: dict[str, Any], layout: Layout, recipe: Recipe
) -> dict[str, Any]:  # fmt: skip
    """All sections; `raw` is the config.json."""
    model = {key: value for key, value in raw.items() if key not in _NOT_THE_MODEL and value is not None}
    seq_length = recipe.context(config.max_position_embeddings)
    data = {**megatron(recipe.data, seq_length), "column_names": list(COLUMNS)}
    return {
        "checkpoint": {"enable_save": True, "save_path": "./output/checkpoint", "save_max": 2,
                       "save_interleaved_steps": 500, "load_path": str(directory), "no_load_optim": True},
        "training": {"steps": recipe.steps, "local_batch_size": recipe.batch_size,
                     "global_batch_size": recipe.batch_size * layout.dp * layout.micro_batches,
                     "max_norm": 1.0, "seed": recipe.seed},
        "parallelism": _parallelism(config, layout),
        "optimizer": recipe.optimizer(),
        "lr_scheduler": recipe.schedule(),
        "recompute": {"mode": "full" if layout.recompute == "full" else "None"},
        "context": {"mode": 1, "device_target": "Ascend", "max_device_memory": "58GB"},
        "callbacks": [],
        "train_dataset": {"dataloader": data},
        "model": {**model, **mcore_section(seq_length), "architectures": TRAINED[config.model_type]},
    }  # fmt: skip


def _parallelism(config: ModelConfig, layout: Layout) -> dict[str, Any]:
    """Copies that share out nothing are shards of one; what is gathered stays until the backward pass under ZeRO-2."""
    said = settings(layout, 1, config.num_key_value_heads)
    policy = {"reshard_after_forward_policy": RESHARD[layout.zero]} if layout.zero else {}
    stages = {} if layout.pp == 1 else {"pipeline_parallel_layers_per_stage": _stages(config, layout)}
    return {
        "data_parallel_shard": layout.dp if layout.zero else 1, **policy, "tensor_parallel": layout.tp,
        "sequence_parallel": layout.sequence_parallel, "context_parallel": layout.cp,
        "context_parallel_method": METHODS[said["context_parallel_algo"]], "pipeline_parallel": layout.pp, **stages,
        "pipeline_parallel_microbatch_size": layout.micro_batches,
    }  # fmt: skip


def _stages(config: ModelConfig, layout: Layout) -> list[str]:
    """First and last layer of each stage."""
    counts, last = split(config.num_hidden_layers, layout.pp), -1
    return [f"{last + 1}-{(last := last + count)}" for count in counts]
