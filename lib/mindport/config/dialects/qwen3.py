"""Qwen3 (dense): q and k are normalised head by head before they are rotated; head_dim is a size of its own."""

from __future__ import annotations

from mindport.config.dialect import Dialect, Field, Row
from mindport.config.dialects import decoder
from mindport.config.dialects.common import HARMLESS
from mindport.config.readers import activation, boolean, positive_int

B, L = decoder.B, decoder.L

QWEN3 = Dialect(
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    config_class="Qwen3Config",
    fields=(
        *decoder.SIZES,
        Field("num_key_value_heads", "num_key_value_heads", positive_int, 32, null=decoder.ALL_HEADS),
        Field("head_dim", "head_dim", positive_int, 128),
        Field("max_position_embeddings", "max_position_embeddings", positive_int, 32_768),
        Field("hidden_act", "hidden_act", activation, "silu"),
        decoder.epsilon(1e-6),
        decoder.ROPE,
        Field("attention_bias", "qkv_bias attention_out_bias", boolean, False),
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, False),
        *decoder.REST,
    ),
    constants={**decoder.CONSTANTS, "qk_norm": True, "mlp_bias": False, "window": decoder.BY_LAYER},
    refused=decoder.DENSE,
    harmless=HARMLESS,
    rows=decoder.rows(
        attention=(*decoder.QKVO, *(Row(f"{B}attn.{x}_norm.weight", f"{L}self_attn.{x}_norm.weight") for x in "qk")),
    ),
    modules=decoder.MODULES,
    dropped=decoder.DROPPED,
    written=decoder.WRITTEN_WINDOWS,
)
