"""GPT-NeoX and Pythia: attention and MLP side by side, a part of each head rotated, QKV fused head by head."""

from __future__ import annotations

from mindport.config.dialect import Dialect, Field, Row, pair
from mindport.config.dialects import decoder
from mindport.config.dialects.common import DTYPE, HARMLESS, INIT, REFUSED, TOKENS
from mindport.config.readers import activation, boolean, positive_float, positive_int, probability
from mindport.config.rope import PARTIAL, rope_reader, rotary_dim

B, L = "blocks.{}.", "layers.{}."
DEFAULTS = {"rope_theta": 10_000.0, PARTIAL: 0.25}


def _qkv(what: str) -> Row:
    return Row(" ".join(f"{B}attn.{x}.{what}" for x in "qkv"), f"{L}attention.query_key_value.{what}", "grouped_qkv")


GPT_NEOX = Dialect(
    model_type="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    config_class="GPTNeoXConfig",
    fields=(
        *decoder.SIZES,
        Field("max_position_embeddings", "max_position_embeddings", positive_int, 2048),
        Field("hidden_act", "hidden_act", activation, "gelu"),
        Field("layer_norm_eps", "norm_eps", positive_float, 1e-5),
        Field("rope_parameters", "rope", rope_reader(partial=True), DEFAULTS),
        Field("use_parallel_residual", "parallel_residual", boolean, True),
        Field("attention_bias", "qkv_bias attention_out_bias", boolean, True),
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, False),
        Field("hidden_dropout", "embd_pdrop resid_pdrop", probability, 0.0),
        Field("attention_dropout", "attn_pdrop", probability, 0.0),
        INIT,
        *TOKENS,
        DTYPE,
    ),
    constants={
        "norm": "layer",
        "position": "rope",
        "gated_mlp": False,
        "mlp_bias": True,
        "num_key_value_heads": decoder.ALL_HEADS,
        "head_dim": decoder.SPLIT_WIDTH,
        "rotary_dim": rotary_dim(0.25),
    },
    refused=REFUSED,
    harmless={**HARMLESS, "classifier_dropout": "classification heads only"},
    rows=(
        Row("embed.weight", "embed_in.weight"),
        *pair(B + "norm1", L + "input_layernorm"),
        _qkv("weight"),
        _qkv("bias"),
        *pair(B + "attn.o", L + "attention.dense"),
        *pair(B + "norm2", L + "post_attention_layernorm"),
        *pair(B + "mlp.up", L + "mlp.dense_h_to_4h"),
        *pair(B + "mlp.down", L + "mlp.dense_4h_to_h"),
        *pair("norm", "final_layer_norm"),
        Row("head.weight", "embed_out.weight"),
    ),
    modules=(
        (B + "attn", L + "attention"),
        (B + "mlp", L + "mlp"),
        ("blocks.{}", "layers.{}"),
    ),
    dropped=(L + "attention.bias", L + "attention.masked_bias", L + "attention.rotary_emb.inv_freq"),
    prefix="gpt_neox.",
    rope_keys={"rotary_emb_base": "rope_theta", "rotary_pct": PARTIAL},
    rope_defaults=DEFAULTS,
)
