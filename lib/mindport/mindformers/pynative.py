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
                     "global_batch_size": recipe.batch_size * layout.dp, "max_norm": 1.0, "seed": recipe.seed},
        "parallelism": {"data_parallel_shard": layout.dp, "tensor_parallel": layout.tp, "context_parallel": 1,
                        "pipeline_parallel": layout.pp, "pipeline_parallel_microbatch_size": 1},
        "optimizer": recipe.optimizer(),
        "lr_scheduler": recipe.schedule(),
        "recompute": {"mode": "full" if recipe.recompute else "None"},
        "context": {"mode": 1, "device_target": "Ascend", "max_device_memory": "58GB"},
        "callbacks": [],
        "train_dataset": {"dataloader": data},
        "model": {**model, **mcore_section(seq_length), "architectures": TRAINED[config.model_type]},
    }  # fmt: skip
