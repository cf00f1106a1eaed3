"""What the tiny random models are: settings of the transformers classes; `reference_tiny` makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tiny:
    """One model.

    Attributes:
        family: its dialect.
        settings: of the family's configuration class.
        vocab_size: what config.json says where the last rows of the embedding are padding; None where none are.
    """

    family: str
    settings: dict[str, Any]
    vocab_size: int | None = None

    @property
    def padded_vocab(self) -> int | None:
        """Rows of the embedding, where some are padding."""
        return None if self.vocab_size is None else self.settings["vocab_size"]


def _decoder(**changes: Any) -> dict[str, Any]:
    """Settings that LLaMA and the families after it have in common."""
    return {
        "vocab_size": 53, "hidden_size": 42, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 6,
        "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}, **changes,
    }  # fmt: skip


GPT2 = {"vocab_size": 53, "n_embd": 40, "n_layer": 3, "n_head": 5, "n_inner": 56, "n_positions": 64, "bos_token_id": 1,
        "eos_token_id": 2, "scale_attn_by_inverse_layer_idx": True}  # fmt: skip
NEOX = {"vocab_size": 53, "hidden_size": 40, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 5,
        "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5}}  # fmt: skip
PARTLY = {"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.75}

MODELS = {
    "gpt2-by-layer": Tiny("gpt2", GPT2),
    "gpt_neox": Tiny("gpt_neox", NEOX),
    "llama-bias": Tiny("llama", _decoder(attention_bias=True, mlp_bias=True)),
    "mistral": Tiny("mistral", _decoder(sliding_window=7)),
    "qwen2-padded": Tiny("qwen2", _decoder(hidden_size=48, vocab_size=64), vocab_size=53),
    "qwen3": Tiny("qwen3", _decoder()),
    "phi3": Tiny("phi3", _decoder(hidden_size=48, sliding_window=7, rope_parameters=PARTLY)),
    "gemma": Tiny("gemma", _decoder()),
}
