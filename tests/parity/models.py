"""The models of these tests: settings of gpt2 and llama that matter to the comparison, and one of each other family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.families import FAMILIES, LLAMA3, NEW, build, rope

GPT2 = {"vocab_size": 53, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_inner": 52, "n_positions": 40, "bos_token_id": 0,
        "eos_token_id": 1}  # fmt: skip
LLAMA = {
    "vocab_size": 59, "hidden_size": 30, "intermediate_size": 44, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64,
}  # fmt: skip
LOGITS_ONLY = ("mistral yarn", "qwen2 yarn tied", "gemma bias linear untied")  # held to the class in tests/model
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 4.0}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2-tied": ("gpt2", GPT2),
    "gpt2-untied-erf": ("gpt2", {**GPT2, "tie_word_embeddings": False, "activation_function": "gelu",
                                 "scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True}),
    "llama-untied-llama3": ("llama", {**LLAMA, **rope("llama3", **LLAMA3)}),
    "llama-tied-yarn-bias": ("llama", {**LLAMA, "tie_word_embeddings": True, "attention_bias": True, **rope("yarn")}),
    "llama-dynamic": ("llama", {**LLAMA, "max_position_embeddings": 32, "rope_parameters": DYNAMIC}),
    **{name: FAMILIES[name] for name in NEW if name not in LOGITS_ONLY},
}  # fmt: skip


def make(name: str, to: Path) -> Path:
    """A Hugging Face directory of one of `MODELS`."""
    build(*MODELS[name]).save_pretrained(to)
    return to
