"""Phi-3 and Phi-4-mini: fused projections, a part of each head rotated, a window, and longrope beyond 4096 tokens."""

from __future__ import annotations

from mindport.config.dialect import Dialect, Field, Refusal, Row
from mindport.config.dialects import decoder
from mindport.config.dialects.common import HARMLESS, REFUSED
from mindport.config.readers import activation, boolean, positive_int, probability
from mindport.config.rope import PARTIAL, rope_reader, rotary_dim

B, L = decoder.B, decoder.L
DEFAULTS = {"rope_theta": 10_000.0, PARTIAL: 1.0}
CONTEXT = "original_max_position_embeddings"

PHI3 = Dialect(
    model_type="phi3",
    architecture="Phi3ForCausalLM",
    config_class="Phi3Config",
    fields=(
        *decoder.SIZES,
        decoder.KV_HEADS,
        decoder.HEAD_DIM,
        Field("max_position_embeddings", "max_position_embeddings", positive_int, 4096),
        Field("hidden_act", "hidden_act", activation, "silu"),
        decoder.epsilon(1e-5),
        Field("rope_parameters", "rope", rope_reader(("default", "longrope"), partial=True), DEFAULTS),
        Field("tie_word_embeddings", "tie_word_embeddings", boolean, False),
        Field("resid_pdrop", "resid_pdrop", probability, 0.0),
        *decoder.REST,
    ),
    constants={
        **decoder.CONSTANTS,
        "qkv_bias": False,
        "attention_out_bias": False,
        "mlp_bias": False,
        "rotary_dim": rotary_dim(1.0),
        "window": decoder.every_layer(None),
    },
    refused=(*REFUSED, decoder.NO_LAYER_TYPES,
             Refusal("attention_bias", (None, False), "the family's class has no biases there")),
    harmless={
        **HARMLESS,
        "embd_pdrop": "the family's class reads it and applies none",
    },
    rows=decoder.rows(
        attention=(
            Row(" ".join(f"{B}attn.{x}.weight" for x in "qkv"), L + "self_attn.qkv_proj.weight", "stack"),
            Row(B + "attn.o.weight", L + "self_attn.o_proj.weight"),
        ),
        mlp=(
            Row(f"{B}mlp.gate.weight {B}mlp.up.weight", L + "mlp.gate_up_proj.weight", "stack"),
            Row(B + "mlp.down.weight", L + "mlp.down_proj.weight"),
        ),
    ),
    modules=decoder.MODULES,
    dropped=decoder.DROPPED,
    rope_keys={"rope_theta": "rope_theta", PARTIAL: PARTIAL, CONTEXT: CONTEXT},
    rope_defaults=DEFAULTS,
    rope_over={CONTEXT: 4096},
    written={
        "sliding_window": lambda c: c.window and c.window[0],
        CONTEXT: lambda c: (c.rope and c.rope.original_max_position_embeddings) or c.max_position_embeddings,
    },
)  # fmt: skip
