"""Tiny random models of the real transformers classes, for the tests of every room.

Three layers, all dimensions different, fewer key/value heads than heads where the family allows it, no norm that
multiplies by one, no bias that is zero. `FAMILIES` has at least one model of each family, so that every feature of it
is on in one of them; windows (5 to 7 keys) and stretched contexts (from 16) are shorter than the tests' sequences.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindport.config import DIALECTS

CONTEXT = 16  # every scaled rope below stretches from here
Settings = dict[str, Any]


def rope(kind: str = "default", **values: Any) -> Settings:
    """`rope_parameters` with a base that tiny models can tell apart."""
    scaled = {} if kind == "default" else {"factor": 4.0, "original_max_position_embeddings": CONTEXT}
    if kind == "linear":
        del scaled["original_max_position_embeddings"]
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 1000.0, **scaled, **values}}


def decoder(**changes: Any) -> Settings:
    """Settings that LLaMA and the families after it have in common."""
    return {
        "vocab_size": 37, "hidden_size": 20, "intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": None, **rope(), **changes,
    }  # fmt: skip


def neox(**changes: Any) -> Settings:
    """Settings of GPT-NeoX: 4 of 6 dimensions of a head are rotated."""
    return {
        "vocab_size": 37, "hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 4,
        "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, **rope(partial_rotary_factor=0.7),
        **changes,
    }  # fmt: skip


GPT2 = {
    "vocab_size": 37, "n_embd": 20, "n_layer": 3, "n_head": 4, "n_positions": 40, "n_inner": 28, "embd_pdrop": 0.0,
    "attn_pdrop": 0.0, "resid_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
WINDOWS = {"use_sliding_window": True, "sliding_window": 5}

FAMILIES: dict[str, tuple[str, Settings]] = {
    "gpt2": ("gpt2", GPT2),
    "gpt_neox": ("gpt_neox", neox()),
    "gpt_neox sequential linear": ("gpt_neox", neox(
        use_parallel_residual=False, attention_bias=False, **rope("linear", partial_rotary_factor=0.4))),
    "llama": ("llama", decoder(hidden_size=24, head_dim=8, attention_bias=True, mlp_bias=True)),
    "mistral": ("mistral", decoder(head_dim=8, sliding_window=5)),
    "mistral yarn": ("mistral", decoder(
        head_dim=8, sliding_window=None, **rope("yarn"))),
    "qwen2": ("qwen2", decoder(hidden_size=24, max_window_layers=1, **WINDOWS)),
    "qwen2 yarn tied": ("qwen2", decoder(
        hidden_size=24, tie_word_embeddings=True, **WINDOWS, **rope("yarn"),
        layer_types=["sliding_attention", "full_attention", "sliding_attention"])),
    "qwen3": ("qwen3", decoder(head_dim=8)),
    "qwen3 bias llama3": ("qwen3", decoder(
        head_dim=8, attention_bias=True, tie_word_embeddings=True, max_window_layers=2, **WINDOWS,
        **rope("llama3", **LLAMA3))),
    "phi3": ("phi3", decoder(hidden_size=48, sliding_window=7, **rope(partial_rotary_factor=0.75))),
    "gemma": ("gemma", decoder(head_dim=8)),
    "gemma bias linear untied": ("gemma", decoder(
        head_dim=8, attention_bias=True, tie_word_embeddings=False, **rope("linear"))),
}  # fmt: skip
NEW = [name for name, (family, _) in FAMILIES.items() if family not in ("gpt2", "llama")]


def build(family: str, settings: Settings) -> Any:
    """A model of the family's real class with random weights, eager attention, in evaluation mode."""
    import torch
    import transformers

    dialect = DIALECTS[family]
    config = getattr(transformers, dialect.config_class)(**settings, attn_implementation="eager")
    torch.manual_seed(0)
    model = getattr(transformers, dialect.architecture)(config).eval()
    randomise(model, centre=0 if dialect.constants.get("norm_offset") else 1)
    return model


def randomise(model: Any, centre: int = 1) -> None:
    """Matrices that keep the size of what they multiply, norms that multiply by about 1, biases around 0 but not 0."""
    import torch

    rows = 0.5 if model.config.tie_word_embeddings else 1  # as a head, larger rows make logits that float32 rounds
    with torch.no_grad():
        for name, value in model.named_parameters():
            table = any(part in name for part in ("wte", "wpe", "embed_tokens", "embed_in"))
            value.normal_(0, rows if table else 0.3 if value.ndim == 1 else value.shape[1] ** -0.5)
            if value.ndim == 1 and name.endswith("weight"):
                value += centre


def save(name: str, directory: Path) -> Path:
    """A Hugging Face directory of one of `FAMILIES`."""
    build(*FAMILIES[name]).save_pretrained(directory)
    return directory
