"""Tiny random models of the real transformers classes: nothing about them is symmetric, round, or zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

GPT2 = {"vocab_size": 53, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_inner": 52, "n_positions": 40}
LLAMA = {
    "vocab_size": 59, "hidden_size": 30, "intermediate_size": 44, "num_hidden_layers": 3, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64,
}  # fmt: skip


def rope(kind: str, **more: Any) -> dict[str, Any]:
    return {"rope_theta": 1000.0, "rope_type": kind, "factor": 4.0, **more}


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2-tied": ("gpt2", {}),
    "gpt2-untied-erf": ("gpt2", {"tie_word_embeddings": False, "activation_function": "gelu",
                                 "scale_attn_by_inverse_layer_idx": True}),
    "llama-untied-llama3": ("llama", {"rope_parameters": rope(
        "llama3", original_max_position_embeddings=16, low_freq_factor=1.0, high_freq_factor=4.0)}),
    "llama-tied-yarn-bias": ("llama", {"tie_word_embeddings": True, "attention_bias": True, "rope_parameters": rope(
        "yarn", original_max_position_embeddings=16)}),
    "llama-dynamic": ("llama", {"max_position_embeddings": 32, "rope_parameters": rope("dynamic")}),
}  # fmt: skip


def make(name: str, to: Path) -> Path:
    """A Hugging Face directory of one of `MODELS`."""
    import torch
    import transformers

    family, changes = MODELS[name]
    torch.manual_seed(7)
    if family == "gpt2":
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(**{**GPT2, **changes}, bos_token_id=0, eos_token_id=1)
        )
    else:
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**LLAMA, **changes}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8).add_(torch.randn_like(parameter) * (0.1 if parameter.ndim == 1 else 0.02))
        for part, parameter in model.named_parameters():
            if parameter.ndim == 1 and part.endswith("weight"):
                parameter.div_(8)  # norm weights around 1, none of them 1
    model.save_pretrained(to)
    return to
