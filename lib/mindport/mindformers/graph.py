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
from mindport.mindformers.settings import settings
from mindport.mindformers.stages import split

RUNNER = ("batch_size", "gradient_accumulation_steps")
PARALLEL = ("data_parallel", "model_parallel", "pipeline_stage", "context_parallel", "context_parallel_algo",
            "micro_batch_num", "use_seq_parallel")  # fmt: skip
INTERLEAVED = {"pipeline_config": {"pipeline_interleave": True, "pipeline_scheduler": "1f1b"}}
# What selective recomputation computes again, mcore and legacy: the gate, the activation function and the norms. The
# peer's own default leaves out the norms, whose outputs are half of what the planner counts on.
SELECTED = (
    [r"mlp\.mul", r"mlp\.activation_func\.silu", "input_layernorm", "pre_mlp_layernorm"],
    [r"feed_forward\.mul", r"feed_forward\.w1\.activation\.silu", "attention_norm", "ffn_norm"],
)


def graph(directory: Path, config: ModelConfig, target: Target, layout: Layout, recipe: Recipe) -> dict[str, Any]:
    """All sections."""
    seq_length, legacy = recipe.context(config.max_position_embeddings), is_legacy(target)
    said = settings(layout, recipe.batch_size, config.num_key_value_heads)
    data = graph_data(recipe.data, seq_length, recipe.batch_size, legacy=legacy)
    model = model_section(config, target, seq_length)
    model["model_config"] |= _offset(config.num_hidden_layers, layout.pp) | _chunks(layout)
    return {
        **_general(directory, target, layout, recipe),
        "trainer": {"type": "CausalLanguageModelingTrainer", "model_name": config.model_type},
        "runner_config": {"epochs": 1, "sink_mode": True, "sink_size": 1, "stop_step": recipe.steps,
                          **{key: said[key] for key in RUNNER}},
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
        **_parallel(said, len(data["train_dataset"]["input_columns"]), legacy),
        "recompute_config": {"recompute": said["recompute"],
                             "select_recompute": SELECTED[legacy] if said["select_recompute"] else False,
                             "parallel_optimizer_comm_recompute": False, "mp_comm_recompute": True,
                             "recompute_slice_activation": False},
        "model": model,
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


def _parallel(said: dict[str, Any], columns: int, legacy: bool) -> dict[str, Any]:
    """The vocabulary is split as the planner counts it; mcore networks and pipelines have no other way."""
    sharding = {"parallel_optimizer_config": {"gradient_accumulation_shard": said["gradient_accumulation_shard"],
                                              "parallel_optimizer_threshold": 64}}  # fmt: skip
    sharded = said["enable_parallel_optimizer"]
    return {
        "parallel_config": {**{key: said[key] for key in PARALLEL}, "gradient_aggregation_group": 1,
                            "vocab_emb_dp": legacy and said["model_parallel"] == said["pipeline_stage"] == 1},
        "parallel": {"parallel_mode": 1, "full_batch": False,
                     "dataset_strategy": [[said["data_parallel"], 1] for _ in range(columns)],
                     "gradients_mean": False, "enable_alltoall": said["context_parallel_algo"] == "ulysses_cp",
                     "search_mode": "sharding_propagation", "enable_parallel_optimizer": sharded,
                     **(sharding if sharded else {}), **(INTERLEAVED if said["pipeline_interleave"] else {})},
    }  # fmt: skip


def _offset(layers: int, stages: int) -> dict[str, Any]:
    """Layers of each stage beyond an equal share; without it the peer refuses layers that do not divide."""
    return {"offset": [count - layers // stages for count in split(layers, stages)]} if layers % stages else {}


def _chunks(layout: Layout) -> dict[str, Any]:
    """How many chunks of layers take turns on a stage; without `pipeline_config` the peer ignores it, and says so."""
    return {"pp_interleave_num": layout.interleave} if layout.interleave > 1 else {}
