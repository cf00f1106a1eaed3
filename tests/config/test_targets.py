"""The tables for MindSpore Transformers: complete, and written down once more by hand for a small model."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from mindport.config import ModelConfig, Rope, schema
from mindport.config.targets import MINDSPORE, TARGETS, target_for
from mindport.config.targets.config_json import mindformers_config
from mindport.errors import ConfigError, UsageError
from mindport.weights.plan import foreign_shapes, table

LLAMA = ModelConfig(
    model_type="llama", vocab_size=41, hidden_size=24, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=2, head_dim=6, intermediate_size=44, max_position_embeddings=64, hidden_act="silu",
    gated_mlp=True, norm="rms", norm_eps=1e-5, position="rope", rope=Rope(rope_theta=1e4), qkv_bias=False,
    attention_out_bias=False, mlp_bias=False, tie_word_embeddings=False,
)  # fmt: skip
GPT2 = ModelConfig(
    model_type="gpt2", vocab_size=37, hidden_size=24, num_hidden_layers=1, num_attention_heads=4,
    num_key_value_heads=4, head_dim=6, intermediate_size=52, max_position_embeddings=19, hidden_act="gelu_tanh",
    gated_mlp=False, norm="layer", norm_eps=1e-5, position="learned", qkv_bias=True, attention_out_bias=True,
    mlp_bias=True, tie_word_embeddings=True,
)  # fmt: skip
BIASED = dataclasses.replace(LLAMA, qkv_bias=True)
QWEN3 = dataclasses.replace(LLAMA, qk_norm=True, tie_word_embeddings=True)

L, D, K = "model.layers.0.", "decoder.layers.0.", "backbone.blocks.0."
ENDS = {"model.tok_embeddings.embedding_weight": (41, 24), "model.norm_out.weight": (24,), "lm_head.weight": (41, 24),
        L + "attention_norm.weight": (24,), L + "ffn_norm.weight": (24,), L + "attention.wo.weight": (24, 24),
        L + "feed_forward.w2.weight": (24, 44)}  # fmt: skip
BY_HAND: dict[str, tuple[str, ModelConfig, dict[str, tuple[int, ...]]]] = {
    "llama": ("mindformers-llama", LLAMA, {
        **ENDS, L + "attention.wq.weight": (24, 24), L + "attention.wk.weight": (12, 24),
        L + "attention.wv.weight": (12, 24), L + "feed_forward.w1.weight": (44, 24),
        L + "feed_forward.w3.weight": (44, 24),
    }),
    "llama, concat, biases": ("mindformers-llama-concat", BIASED, {
        **ENDS, L + "attention.w_qkv.weight": (48, 24), L + "attention.w_qkv.bias": (48,),
        L + "feed_forward.w_gate_hidden.weight": (88, 24),
    }),
    "mcore, biases": ("mindformers-mcore", BIASED, {
        "embedding.word_embeddings.weight": (41, 24), "decoder.final_layernorm.weight": (24,),
        "output_layer.weight": (41, 24), D + "input_layernorm.weight": (24,), D + "pre_mlp_layernorm.weight": (24,),
        D + "self_attention.linear_qkv.weight": (48, 24), D + "self_attention.linear_qkv.bias": (48,),
        D + "self_attention.linear_proj.weight": (24, 24), D + "mlp.linear_fc1.weight": (88, 24),
        D + "mlp.linear_fc2.weight": (24, 44),
    }),
    "mcore, norms on q and k, tied": ("mindformers-mcore", QWEN3, {
        "embedding.word_embeddings.weight": (41, 24), "decoder.final_layernorm.weight": (24,),
        D + "input_layernorm.weight": (24,), D + "pre_mlp_layernorm.weight": (24,),
        D + "self_attention.linear_qkv.weight": (48, 24), D + "self_attention.q_layernorm.weight": (6,),
        D + "self_attention.k_layernorm.weight": (6,), D + "self_attention.linear_proj.weight": (24, 24),
        D + "mlp.linear_fc1.weight": (88, 24), D + "mlp.linear_fc2.weight": (24, 44),
    }),
    "gpt2": ("mindformers-gpt2", GPT2, {
        "backbone.embedding.word_embedding.embedding_table": (37, 24),
        "backbone.embedding.position_embedding.embedding_table": (19, 24),
        "backbone.layernorm.gamma": (24,), "backbone.layernorm.beta": (24,),
        **{f"{K}layernorm{i}.{what}": (24,) for i in (1, 2) for what in ("gamma", "beta")},
        **{f"{K}attention.dense{i}.weight": (24, 24) for i in (1, 2, 3)},
        **{f"{K}attention.dense{i}.bias": (24,) for i in (1, 2, 3)},
        K + "attention.projection.weight": (24, 24), K + "attention.projection.bias": (24,),
        K + "output.mapping.weight": (24, 52), K + "output.mapping.bias": (52,),  # [in, out]
        K + "output.projection.weight": (52, 24), K + "output.projection.bias": (24,),
    }),
}  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_names_and_shapes_are_those_written_by_hand(case: str) -> None:
    name, config, expected = BY_HAND[case]
    assert foreign_shapes(table(TARGETS[name].dialect, config)) == expected


def test_our_own_names_are_a_target_too() -> None:
    for config in (LLAMA, BIASED, GPT2):
        assert foreign_shapes(table(MINDSPORE.dialect, config)) == schema.shapes(config)


@pytest.mark.parametrize("target", TARGETS)
def test_no_two_rows_share_a_name_and_every_parameter_that_exists_has_a_row(target: str) -> None:
    rows = TARGETS[target].dialect.rows
    foreign = [row.foreign for row in rows]
    assert len(foreign) == len(set(foreign))
    config = GPT2 if target == "mindformers-gpt2" else LLAMA
    written = [name for step in table(TARGETS[target].dialect, config).steps for name in step.hub]
    assert sorted(written) == sorted(schema.shapes(config))


REFUSED: list[tuple[str, ModelConfig, str]] = [
    ("mindformers-mcore", GPT2, "RMS norm"),
    ("mindformers-mcore", GPT2, "plain rotary positions"),
    ("mindformers-mcore", dataclasses.replace(LLAMA, attention_out_bias=True), "no bias on the attention's output"),
    ("mindformers-mcore", dataclasses.replace(LLAMA, mlp_bias=True), "no bias"),
    ("mindformers-mcore", dataclasses.replace(LLAMA, rope=Rope(rope_theta=1e4, rope_type="linear", factor=2.0)), "rot"),
    *[
        (target, dataclasses.replace(LLAMA, **change), reason)
        for target in ("mindformers-llama", "mindformers-mcore")
        for change, reason in (
            ({"norm_offset": 1}, "multiply by their weight"),
            ({"window": (8,)}, "without a window"),
            ({"rotary_dim": 4}, "rotated whole"),
            ({"parallel_residual": True}, "after the attention"),
            ({"embedding_scale": 4.9}, "not scaled"),
        )
    ],
    ("mindformers-llama", dataclasses.replace(LLAMA, qk_norm=True), "q and k without norms"),
    ("mindformers-llama", GPT2, "RMS norm"),
    ("mindformers-llama", dataclasses.replace(LLAMA, head_dim=8), "head_dim = hidden_size / heads"),
    ("mindformers-llama", dataclasses.replace(LLAMA, hidden_act="gelu"), "SiLU"),
    ("mindformers-llama", dataclasses.replace(LLAMA, scale_attn_weights=False), "sqrt"),
    ("mindformers-llama-concat", dataclasses.replace(LLAMA, mlp_bias=True), "no bias"),
    ("mindformers-gpt2", LLAMA, "layer norm"),
    ("mindformers-gpt2", dataclasses.replace(GPT2, tie_word_embeddings=False), "tied to the embedding"),
    ("mindformers-gpt2", dataclasses.replace(GPT2, hidden_act="gelu"), "tanh-GELU"),
    ("mindformers-gpt2", dataclasses.replace(GPT2, scale_attn_by_inverse_layer_idx=True), "sqrt"),
]


@pytest.mark.parametrize(("target", "config", "reason"), REFUSED)
def test_what_the_network_cannot_hold_is_refused_with_the_reason(target: str, config: ModelConfig, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as raised:
        TARGETS[target].check(config, "a place")
    assert target in str(raised.value) and "a place" in str(raised.value)


def test_what_it_can_hold_is_not_refused() -> None:
    llama3 = Rope(rope_theta=1e4, rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=32)  # fmt: skip
    for target in ("mindformers-llama", "mindformers-llama-concat"):
        TARGETS[target].check(dataclasses.replace(BIASED, rope=llama3, attention_out_bias=True))
    TARGETS["mindformers-mcore"].check(dataclasses.replace(BIASED, head_dim=8))
    TARGETS["mindformers-gpt2"].check(GPT2)


FIELDS = {  # every field of ModelConfig, and where a target answers for it
    "a size or a name": "model_type vocab_size padded_vocab hidden_size num_hidden_layers num_attention_heads "
    "num_key_value_heads head_dim intermediate_size max_position_embeddings norm_eps bos_token_id eos_token_id "
    "pad_token_id dtype",
    "a row of the tables": "tie_word_embeddings qkv_bias attention_out_bias mlp_bias",
    "a need": "hidden_act gated_mlp norm norm_offset qk_norm position rope rotary_dim window parallel_residual "
    "embedding_scale scale_attn_weights scale_attn_by_inverse_layer_idx",
    "a lower precision than float32 only": "upcast_attention",
    "training only": "embd_pdrop attn_pdrop resid_pdrop initializer_range",
}


def test_a_new_field_of_the_model_has_to_be_considered_here() -> None:
    """A field that changes the forward pass and that no target checks would go across in silence."""
    considered = [name for names in FIELDS.values() for name in names.split()]
    assert sorted(considered) == sorted(field.name for field in dataclasses.fields(ModelConfig))


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(UsageError, match="mindformers-mcore"):
        target_for("mindformers")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"dtype": "bfloat16"}, {"torch_dtype": "bfloat16"}),
        ({"torch_dtype": "float16", "dtype": "float16"}, {"torch_dtype": "float16"}),
        ({"rope_theta": 5.0, "rope_scaling": None}, {"rope_theta": 5.0, "rope_scaling": None}),
        ({"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}}, {"rope_theta": 7.0, "rope_scaling": None}),
        (
            {"rope_parameters": {"rope_theta": 7.0, "rope_type": "linear", "factor": 2.0}},
            {"rope_theta": 7.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        ),
        ({"vocab_size": 3}, {"vocab_size": 3}),
    ],
)
def test_config_json_gets_the_spellings_of_transformers_4(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    before = dict(raw)
    assert mindformers_config(raw) == expected
    assert raw == before
