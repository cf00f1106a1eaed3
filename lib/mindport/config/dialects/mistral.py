"""Mistral 7B and its kin: LLaMA without biases, with a window in every layer."""

from __future__ import annotations

from mindport.config.dialect import Dialect, Field
from mindport.config.dialects import decoder
from mindport.config.dialects.common import HARMLESS
from mindport.config.readers import activation, boolean, positive_int

MISTRAL = Dialect(
    model_type="mistral",
    architecture="MistralForCausalLM",
    config_class="MistralConfig",
    fields=(
        *decoder.SIZES,
        Field("num_key_value_heads", "num_key_value_heads", positive_int, 8, null=decoder.ALL_HEADS),
        decoder.HEAD_DIM,
        Field("max_position_embeddings", "max_position_embeddings", positive_int, 131_072),
        Field("hidden_act", "hidden_act", activation, "silu"),
        decoder.epsilon(1e-6),
        decoder.ROPE,
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, False),
        *decoder.REST,
    ),
    constants={
        **decoder.CONSTANTS,
        "qkv_bias": False,
        "attention_out_bias": False,
        "mlp_bias": False,
        "window": decoder.every_layer(4096),
    },
    refused=(*decoder.DENSE, decoder.NO_LAYER_TYPES),
    harmless=HARMLESS,
    rows=decoder.rows(),
    modules=decoder.MODULES,
    dropped=decoder.DROPPED,
    written={"sliding_window": lambda c: c.window and c.window[0]},
)
