"""Qwen2 and Qwen2.5: LLaMA with biases on q, k and v that no key announces, and windows in some layers."""

from __future__ import annotations

from mindport.config.dialect import Dialect, Field
from mindport.config.dialects import decoder
from mindport.config.dialects.common import HARMLESS
from mindport.config.readers import activation, boolean, positive_int

QWEN2 = Dialect(
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    config_class="Qwen2Config",
    fields=(
        *decoder.SIZES,
        Field("num_key_value_heads", "num_key_value_heads", positive_int, 32, null=decoder.ALL_HEADS),
        decoder.HEAD_DIM,
        Field("max_position_embeddings", "max_position_embeddings", positive_int, 32_768),
        Field("hidden_act", "hidden_act", activation, "silu"),
        decoder.epsilon(1e-6),
        decoder.ROPE,
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, False),
        *decoder.REST,
    ),
    constants={
        **decoder.CONSTANTS,
        "qkv_bias": True,
        "attention_out_bias": False,
        "mlp_bias": False,
        "window": decoder.BY_LAYER,
    },
    refused=decoder.DENSE,
    harmless=HARMLESS,
    rows=decoder.rows(),
    modules=decoder.MODULES,
    dropped=decoder.DROPPED,
    written=decoder.WRITTEN_WINDOWS,
)
