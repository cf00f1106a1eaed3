"""GPT-2: learned positions, layer norm, biases everywhere, fused QKV, Conv1D weights stored [in, out]."""

from __future__ import annotations

from mindport.config.dialect import Derived, Dialect, Field, Row, pair
from mindport.config.dialects.common import DTYPE, HARMLESS, INIT, REFUSED, TOKENS
from mindport.config.readers import activation, boolean, layer_count, positive_float, positive_int, probability

B, H = "blocks.{}.", "h.{}."
_SUMMARY = "sequence-classification head only"


def _qkv(what: str) -> str:
    return " ".join(f"{B}attn.{x}.{what}" for x in "qkv")


GPT2 = Dialect(
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    config_class="GPT2Config",
    fields=(
        Field("vocab_size", "vocab_size", positive_int),
        Field("n_embd", "hidden_size", positive_int),
        Field("n_layer", "num_hidden_layers", layer_count),
        Field("n_head", "num_attention_heads", positive_int),
        Field("n_positions", "max_position_embeddings", positive_int),
        Field("n_inner", "intermediate_size", positive_int, Derived("4 · n_embd", lambda raw: 4 * raw["n_embd"])),
        Field("activation_function", "hidden_act", activation, "gelu_new"),
        Field("layer_norm_epsilon", "norm_eps", positive_float, 1e-5),
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, True),
        Field("scale_attn_weights", "scale_attn_weights", boolean, True),
        Field("scale_attn_by_inverse_layer_idx", "scale_attn_by_inverse_layer_idx", boolean, False),
        Field("reorder_and_upcast_attn", "upcast_attention", boolean, False),
        Field("embd_pdrop", "embd_pdrop", probability, 0.1),
        Field("attn_pdrop", "attn_pdrop", probability, 0.1),
        Field("resid_pdrop", "resid_pdrop", probability, 0.1),
        INIT,
        *TOKENS,
        DTYPE,
    ),
    constants={
        "norm": "layer",
        "position": "learned",
        "gated_mlp": False,
        "qkv_bias": True,
        "attention_out_bias": True,
        "mlp_bias": True,
        "num_key_value_heads": Derived("n_head", lambda raw: raw["n_head"]),
        "head_dim": Derived("n_embd / n_head", lambda raw: raw["n_embd"] // raw["n_head"]),
    },
    refused=REFUSED,
    harmless={
        **HARMLESS,
        "n_ctx": "an old name of n_positions; the embedding's rows decide",
        "summary_type": _SUMMARY,
        "summary_use_proj": _SUMMARY,
        "summary_activation": _SUMMARY,
        "summary_proj_to_labels": _SUMMARY,
        "summary_first_dropout": _SUMMARY,
    },
    rows=(
        Row("embed.weight", "wte.weight"),
        Row("position.weight", "wpe.weight"),
        *pair(B + "norm1", H + "ln_1"),
        Row(_qkv("weight"), H + "attn.c_attn.weight", "split_qkv"),
        Row(_qkv("bias"), H + "attn.c_attn.bias", "split_qkv"),
        *pair(B + "attn.o", H + "attn.c_proj", "transpose"),
        *pair(B + "norm2", H + "ln_2"),
        *pair(B + "mlp.up", H + "mlp.c_fc", "transpose"),
        *pair(B + "mlp.down", H + "mlp.c_proj", "transpose"),
        *pair("norm", "ln_f"),
        Row("head.weight", "lm_head.weight"),
    ),
    modules=(
        (B + "attn", H + "attn"),
        (B + "mlp", H + "mlp"),
        ("blocks.{}", "h.{}"),
    ),
    dropped=(H + "attn.bias", H + "attn.masked_bias"),
    prefix="transformer.",
)
