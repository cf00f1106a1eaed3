"""LLaMA 1–3 and its look-alikes: RMS norm, rotary positions, grouped-query attention, SwiGLU."""

from __future__ import annotations

from mindport.config.dialect import Dialect, Field, Refusal
from mindport.config.dialects import decoder
from mindport.config.dialects.common import HARMLESS
from mindport.config.readers import activation, boolean, positive_int

LLAMA = Dialect(
    model_type="llama",
    architecture="LlamaForCausalLM",
    config_class="LlamaConfig",
    fields=(
        *decoder.SIZES,
        decoder.KV_HEADS,
        decoder.HEAD_DIM,
        Field("max_position_embeddings", "max_position_embeddings", positive_int, 2048),
        Field("hidden_act", "hidden_act", activation, "silu"),
        decoder.epsilon(1e-6),
        decoder.ROPE,
        Field("attention_bias", "qkv_bias attention_out_bias", boolean, False),
        Field("mlp_bias", "mlp_bias", boolean, False),
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, False),
        *decoder.REST,
    ),
    constants=decoder.CONSTANTS,
    refused=(
        *decoder.DENSE,
        decoder.NO_WINDOW,
        decoder.NO_LAYER_TYPES,
        Refusal("bias", (False, None), "an old name of attention_bias that the class does not read: write that key"),
        Refusal("rope_interleaved", (False, None), "the halves of a head turn together, as in the reference"),
    ),
    harmless={
        **HARMLESS,
        "pretraining_tp": "slices the same product; the sum is the same but for rounding",
        "max_sequence_length": "an old name of max_position_embeddings",
        "is_llama_config": "who wrote the file",
    },
    rows=decoder.rows(),
    modules=decoder.MODULES,
    dropped=decoder.DROPPED,
)
