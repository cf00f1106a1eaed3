"""The YAML of the graph schema, mindformers 1.9 to 2.1.

Its strict sections refuse a key that they do not know: the top-level scalars, parallel_config, recompute_config,
runner_config. Source: mindformers 1.9.0, tools/register/template.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindport.config import ModelConfig
from mindport.config.targets import Target
from mindport.mindformers.data import graph_data
from mindport.mindformers.layout import Layout
from mindport.mindformers.networks import is_legacy, model_section
from mindport.mindformers.recipe import Recipe


def graph(directory: Path, config: ModelConfig, target: Target, layout: Layout, recipe: Recipe) -> dict[str, Any]:
    """All sections."""
    seq_length, legacy = recipe.context(config.max_position_embeddings), is_legacy(target)
    data = graph_data(recipe.data, seq_length, recipe.batch_size, legacy=legacy)
    return {
        **_general(directory, target, layout, recipe),
        "trainer": {"type": "CausalLanguageModelingTrainer", "model_name": config.model_type},
        "runner_config": {"epochs": 1, "batch_size": recipe.batch_size, "sink_mode": True, "sink_size": 1,
                          "gradient_accumulation_steps": 1, "stop_step": recipe.steps},
        "runner_wrapper": {"type": "MFTrainOneStepCell", "scale_sense": 1.0, "use_clip_grad": True},
        "optimizer": recipe.optimizer(),
        "lr_schedule": recipe.schedule(),
        "callbacks": [{"type": "MFLossMonitor"},
                      {"type": "CheckpointMonitor", "prefix": config.model_type, "save_checkpoint_steps": 500,
                       "keep_checkpoint_max": 2, "integrated_save": False, "async_save": False,
                       "checkpoint_format": "safetensors"}],
        "context": {"mode": 0, "device_target": "Ascend", "max_device_memory": "58GB",
                    "jit_config": {"jit_level": "O0"}},
        **data,
        **_parallel(layout, len(data["train_dataset"]["input_columns"])),
        "recompute_config": {"recompute": recipe.recompute, "select_recompute": False,
                             "parallel_optimizer_comm_recompute": False, "mp_comm_recompute": True,
                             "recompute_slice_activation": False},
        "model": model_section(config, target, seq_length),
    }  # fmt: skip


def _general(directory: Path, target: Target, layout: Layout, recipe: Recipe) -> dict[str, Any]:
    return {
        "seed": recipe.seed,
        "output_dir": "./output",
        "run_mode": "finetune",
        "use_legacy": is_legacy(target),
        "use_parallel": layout.devices > 1,
        "pretrained_model_dir": str(directory),
        "load_checkpoint": str(directory),
        "load_ckpt_format": "safetensors",
        "auto_trans_ckpt": layout.devices > 1,
        "resume_training": False,
    }


def _parallel(layout: Layout, columns: int) -> dict[str, Any]:
    return {
        "parallel_config": {"data_parallel": layout.dp, "model_parallel": layout.tp, "pipeline_stage": layout.pp,
                            "context_parallel": 1, "micro_batch_num": layout.pp, "use_seq_parallel": False,
                            "gradient_aggregation_group": 1, "vocab_emb_dp": True},
        "parallel": {"parallel_mode": 1, "full_batch": False,
                     "dataset_strategy": [[layout.dp, 1] for _ in range(columns)],
                     "gradients_mean": False, "enable_alltoall": False, "search_mode": "sharding_propagation",
                     "enable_parallel_optimizer": layout.dp > 1},
    }  # fmt: skip
