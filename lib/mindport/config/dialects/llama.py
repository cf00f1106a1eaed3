"""LLaMA 1–3 and its look-alikes: RMS norm, rotary positions, grouped-query attention, SwiGLU."""

from __future__ import annotations

from mindport.config.dialect import Derived, Dialect, Field, Refusal, Row, pair
from mindport.config.dialects.common import DTYPE, HARMLESS, INIT, REFUSED, TOKENS
from mindport.config.readers import activation, boolean, layer_count, positive_float, positive_int, probability
from mindport.config.rope import read_rope

B, L = "blocks.{}.", "model.layers.{}."

LLAMA = Dialect(
    model_type="llama",
    architecture="LlamaForCausalLM",
    config_class="LlamaConfig",
    fields=(
        Field("vocab_size", "vocab_size", positive_int),
        Field("hidden_size", "hidden_size", positive_int),
        Field("intermediate_size", "intermediate_size", positive_int),
        Field("num_hidden_layers", "num_hidden_layers", layer_count),
        Field("num_attention_heads", "num_attention_heads", positive_int),
        Field("num_key_value_heads", "num_key_value_heads", positive_int,
              Derived("num_attention_heads", lambda raw: raw["num_attention_heads"])),
        Field("head_dim", "head_dim", positive_int,
              Derived("hidden_size / num_attention_heads",
                      lambda raw: raw["hidden_size"] // raw["num_attention_heads"])),
        Field("max_position_embeddings", "max_position_embeddings", positive_int, 2048),
        Field("hidden_act", "hidden_act", activation, "silu"),
        Field("rms_norm_eps", "norm_eps", positive_float, 1e-6),
        Field("rope_parameters", "rope", read_rope, {"rope_theta": 10_000.0}),  # the older spellings are joined to it
        Field("attention_bias", "qkv_bias attention_out_bias", boolean, False),
        Field("mlp_bias", "mlp_bias", boolean, False),
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, False),
        Field("attention_dropout", "attn_pdrop", probability, 0.0),
        INIT,
        *TOKENS,
        DTYPE,
    ),
    constants={"norm": "rms", "position": "rope", "gated_mlp": True},
    refused=(
        *REFUSED,
        Refusal("sliding_window", (None,), "windowed attention belongs to another family"),
        Refusal("partial_rotary_factor", (None, 1, 1.0), "partly rotated heads belong to another family"),
        Refusal("rope_interleaved", (False, None), "the halves of a head turn together, as in the reference"),
        Refusal("num_local_experts", (None, 0), "mixture-of-experts layers are not computed"),
    ),
    harmless={
        **HARMLESS,
        "pretraining_tp": "slices the same product; the sum is the same but for rounding",
        "max_sequence_length": "an old name of max_position_embeddings",
        "is_llama_config": "who wrote the file",
    },
    rows=(
        Row("embed.weight", "model.embed_tokens.weight"),
        Row(B + "norm1.weight", L + "input_layernorm.weight"),
        *(row for x in "qkvo" for row in pair(f"{B}attn.{x}", f"{L}self_attn.{x}_proj")),
        Row(B + "norm2.weight", L + "post_attention_layernorm.weight"),
        *(row for x in ("gate", "up", "down") for row in pair(f"{B}mlp.{x}", f"{L}mlp.{x}_proj")),
        Row("norm.weight", "model.norm.weight"),
        Row("head.weight", "lm_head.weight"),
    ),
    modules=(
        (B + "attn", L + "self_attn"),
        (B + "mlp", L + "mlp"),
        ("blocks.{}", "model.layers.{}"),
    ),
    dropped=(L + "self_attn.rotary_emb.inv_freq",),
)  # fmt: skip
