"""Gemma 1: norms stored around zero, embeddings scaled on the way in, GEGLU, and a tied head.

Gemma 2 and 3 are other families: they cap their logits and have norms after attention and MLP, which is not computed.
"""

from __future__ import annotations

from mindport.config.dialect import Derived, Dialect, Field, Raw, Refusal
from mindport.config.dialects import decoder
from mindport.config.dialects.common import HARMLESS
from mindport.config.readers import activation, boolean, positive_int

TRAINED = "gelu_pytorch_tanh"
SOFTCAP = "capped logits belong to Gemma 2, which is not computed"


def hidden_act(raw: Raw) -> str:
    """transformers 5 computes `hidden_act`; transformers 4 passed it over and computed `hidden_activation`."""
    keys = ("hidden_act", "hidden_activation")
    now, before = (TRAINED if raw.get(key) is None else raw[key] for key in keys)
    if activation(now) != activation(before):
        raise ValueError(
            f"one activation: transformers 5 computes hidden_act {now}, transformers 4 {before}; "
            f"Gemma was trained with {TRAINED}, so write that under both hidden_act and hidden_activation"
        )
    return activation(now)


GEMMA = Dialect(
    model_type="gemma",
    architecture="GemmaForCausalLM",
    config_class="GemmaConfig",
    fields=(
        *decoder.SIZES,
        Field("num_key_value_heads", "num_key_value_heads", positive_int, 16),
        Field("head_dim", "head_dim", positive_int, 256),
        Field("max_position_embeddings", "max_position_embeddings", positive_int, 8192),
        decoder.epsilon(1e-6),
        decoder.ROPE,
        Field("attention_bias", "qkv_bias attention_out_bias", boolean, False),
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, True),
        *decoder.REST,
    ),
    constants={
        **decoder.CONSTANTS,
        "mlp_bias": False,
        "norm_offset": 1,
        "embedding_scale": Derived("√hidden_size", lambda raw: raw["hidden_size"] ** 0.5),
        "hidden_act": Derived("hidden_act, agreeing with hidden_activation", hidden_act,
                              dict.fromkeys(("hidden_act", "hidden_activation"))),
    },
    refused=(
        *decoder.DENSE, decoder.NO_WINDOW, decoder.NO_LAYER_TYPES,
        Refusal("use_bidirectional_attention", (None, False), "attention to later tokens is not computed"),
        Refusal("attn_logit_softcapping", (None,), SOFTCAP),
        Refusal("final_logit_softcapping", (None,), SOFTCAP),
    ),
    harmless=HARMLESS,
    rows=decoder.rows(),
    modules=decoder.MODULES,
    dropped=decoder.DROPPED,
    written={name: lambda c: c.hidden_act for name in ("hidden_act", "hidden_activation")},
)  # fmt: skip
