"""Tiny models for these tests: all dimensions different, kv heads < heads, three layers, no value that repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mindport.config import ModelConfig, read_config
from mindport.config.read import inspect_config
from mindport.weights.plan import foreign_shapes, table

GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 37, "n_embd": 24, "n_layer": 3,
    "n_head": 4, "n_positions": 19, "n_inner": 52, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 41, "hidden_size": 20,
    "intermediate_size": 44, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
FAMILIES = {"gpt2": GPT2, "llama": LLAMA}
Tensors = dict[str, np.ndarray]


def config_of(raw: dict[str, Any], directory: Path) -> ModelConfig:
    """The `ModelConfig` behind a config.json, through the file, as the user's way goes."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(raw))
    report = inspect_config(directory)
    assert report.model is not None, report.problems
    return report.model


def tensors_of(
    raw: dict[str, Any], directory: Path, dtype: Any = np.float32, seed: int = 0, prefix: str | None = None
) -> Tensors:
    """Random weights under the family's names."""
    model = config_of(raw, directory)
    random = np.random.default_rng(seed)
    shapes = foreign_shapes(table(read_config(directory).dialect, model, prefix))
    return {name: random.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def save(directory: Path, raw: dict[str, Any], tensors: Tensors, shards: int = 1) -> Path:
    """A Hugging Face directory, written with the safetensors library."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(raw))
    if shards == 1:
        save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
        return directory
    names = sorted(tensors)
    weight_map = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        save_file({name: tensors[name] for name in names[i::shards]}, directory / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names[i::shards], file)
    index = {"metadata": {"total_size": sum(x.nbytes for x in tensors.values())}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return directory


def make(directory: Path, family: str = "llama", shards: int = 1, **changes: Any) -> Path:
    """A random model of a family in `directory`."""
    raw = {**FAMILIES[family], **changes}
    return save(directory, raw, tensors_of(raw, directory), shards)
