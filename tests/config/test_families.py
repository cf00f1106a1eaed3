"""Each family's own keys: read as its configuration class of transformers reads them, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers

from mindport.config import DIALECTS, ModelConfig, from_dict, read_config, to_dict
from mindport.config.read import inspect_config
from mindport.config.schema import shapes
from mindport.config.whatif import what_if
from mindport.config.write import to_huggingface
from mindport.errors import ConfigError
from tests.families import FAMILIES

OLD = {  # config.json files as their time wrote them
    "gpt_neox": {"hidden_size": 48, "num_attention_heads": 4, "rotary_emb_base": 5000, "rotary_pct": 0.5},
    "mistral": {"hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                "sliding_window": 16, "rope_theta": 1e6},
    "qwen2": {"hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "use_sliding_window": True,
              "sliding_window": 8, "max_window_layers": 1, "rope_theta": 1e6},
    "qwen3": {"hidden_size": 20, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
    "phi3": {"hidden_size": 32, "num_attention_heads": 4, "partial_rotary_factor": 0.75, "rope_theta": 250000.0},
    "gemma": {"hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16,
              "hidden_act": "gelu_pytorch_tanh"},
}  # fmt: skip
LONGROPE = {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}


def raw(family: str, **changes: object) -> dict:
    common = {"model_type": family, "architectures": [DIALECTS[family].architecture], "vocab_size": 97,
              "intermediate_size": 72, "num_hidden_layers": 3, "bos_token_id": 1, "eos_token_id": 2,
              "max_position_embeddings": 64}  # fmt: skip
    return {**common, **OLD[family], **changes}


def write(tmp_path: Path, family: str, **changes: object) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({k: v for k, v in raw(family, **changes).items() if v is not ...}))  # ...: no such key
    return path


def read(tmp_path: Path, family: str, **changes: object) -> ModelConfig:
    return read_config(write(tmp_path, family, **changes)).model


def problems(tmp_path: Path, family: str, **changes: object) -> str:
    report = inspect_config(write(tmp_path, family, **changes))
    assert not report.ok
    return "; ".join(report.problems)


def reference(tmp_path: Path, family: str, **changes: object) -> transformers.PreTrainedConfig:
    write(tmp_path, family, **changes)
    return transformers.AutoConfig.from_pretrained(tmp_path)


WINDOWED = [
    ("mistral", {}),
    ("mistral", {"sliding_window": ...}),
    ("mistral", {"sliding_window": None}),
    ("phi3", {}),
    ("phi3", {"sliding_window": 9}),
    ("qwen2", {}),
    ("qwen2", {"max_window_layers": 0}),
    ("qwen2", {"max_window_layers": 3}),
    ("qwen2", {"max_window_layers": ...}),
    ("qwen2", {"sliding_window": ..., "max_window_layers": 2}),
    ("qwen2", {"sliding_window": None}),
    ("qwen2", {"use_sliding_window": False}),
    ("qwen2", {"use_sliding_window": ...}),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 4,
               "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "changes"), WINDOWED)
def test_the_window_of_each_layer_is_the_references(tmp_path, family, changes):
    config = reference(tmp_path, family, **changes)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * 3
    expected = tuple(config.sliding_window if kind == "sliding_attention" else None for kind in kinds)
    assert (read(tmp_path, family, **changes).window or (None,) * 3) == expected


@pytest.mark.parametrize("family", OLD)
def test_rotary_values_and_head_sizes_are_the_references(tmp_path, family):
    theirs, ours = reference(tmp_path, family), read(tmp_path, family)
    part = theirs.rope_parameters.get("partial_rotary_factor", 1.0)
    head_dim = getattr(theirs, "head_dim", None) or theirs.hidden_size // theirs.num_attention_heads
    assert (ours.head_dim, ours.rotated, ours.rope.rope_theta) == (
        head_dim, int(head_dim * part), theirs.rope_parameters["rope_theta"])  # fmt: skip


@pytest.mark.parametrize("family", DIALECTS)
def test_defaults_are_those_of_the_configuration_class(family):
    defaults = getattr(transformers, DIALECTS[family].config_class)()
    for field in DIALECTS[family].fields:
        if isinstance(field.absent, (int, float, str, bool)):
            assert field.absent == getattr(defaults, field.key), field.key
        if field.key == "rope_parameters":
            assert field.absent == {k: v for k, v in defaults.rope_parameters.items() if k != "rope_type"} | (
                {"partial_rotary_factor": 1.0} if family == "phi3" else {})  # fmt: skip


@pytest.mark.parametrize(
    ("family", "changes", "fragment"),
    [
        ("gpt_neox", {"rope_theta": 1e4}, "rope_theta 5000 or none"),
        ("gpt_neox", {"partial_rotary_factor": 0.25}, "partial_rotary_factor 0.5 or none"),
        (
            "gpt_neox",
            {"rope_scaling": {"type": "linear", "factor": 2.0, "partial_rotary_factor": 0.25}},
            "one value of",
        ),
        ("gpt_neox", {"rotary_pct": 0.3}, "3 of 12 dimensions"),
        ("gpt_neox", {"rotary_pct": 1.5}, "above 0 and at most 1"),
        ("mistral", {"layer_types": ["full_attention"] * 3}, "layer_types is refused"),
        ("mistral", {"sliding_window": "sixteen"}, "sliding_window: a positive whole number"),
        ("mistral", {"attention_bias": True}, "attention_bias is unknown"),
        ("qwen2", {"layer_types": ["chunked_attention"] * 3}, "full_attention or sliding_attention"),
        ("qwen2", {"layer_types": ["full_attention"] * 2}, "a list of 3"),
        ("qwen2", {"use_sliding_window": False, "layer_types": ["sliding_attention"] * 3}, "use_sliding_window and"),
        ("qwen2", {"max_window_layers": "one"}, "max_window_layers: a whole number"),
        ("qwen2", {"use_sliding_window": "yes"}, "use_sliding_window: true or false"),
        (
            "phi3",
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            "rope_type one of default, longrope, not 'linear'",
        ),
        ("phi3", {"rope_scaling": LONGROPE}, "1 short, 1 long, expected 3"),
        (
            "phi3",
            {"rope_scaling": {**LONGROPE, "original_max_position_embeddings": 16}},
            "the configuration class says 4096",
        ),
        ("gemma", {"hidden_act": "gelu"}, "transformers 4 gelu_pytorch_tanh"),
        ("gemma", {"hidden_activation": "gelu"}, "transformers 5 computes hidden_act gelu_pytorch_tanh"),
        ("gemma", {"hidden_act": ""}, "expected one of gelu"),
        ("gemma", {"final_logit_softcapping": 30.0}, "Gemma 2"),
        ("gemma", {"use_bidirectional_attention": True}, "not computed"),
    ],
)
def test_what_the_family_does_not_compute_is_refused_with_the_reason(tmp_path, family, changes, fragment):
    assert fragment in problems(tmp_path, family, **changes)


def test_an_echo_that_agrees_is_let_through(tmp_path):
    config = read(tmp_path, "gpt_neox", rope_theta=5000, partial_rotary_factor=0.5)
    assert (config.rope.rope_theta, config.rotary_dim) == (5000.0, 6)


def test_gemma_is_read_whichever_key_names_its_activation(tmp_path):
    for keys in ({"hidden_act": ...}, {"hidden_act": "gelu_new"}, {"hidden_act": ..., "hidden_activation": None}):
        assert read(tmp_path, "gemma", **keys).hidden_act == "gelu_tanh"
    gemma = read(tmp_path, "gemma")
    assert (gemma.norm_offset, gemma.embedding_scale, gemma.tie_word_embeddings) == (1, 24**0.5, True)


def test_null_key_value_heads_are_all_heads_and_missing_ones_the_classes_default(tmp_path):
    assert read(tmp_path, "qwen2", num_key_value_heads=None).num_key_value_heads == 4
    assert read(tmp_path, "phi3").num_key_value_heads == 4
    assert "8 kv heads" in problems(tmp_path, "mistral", num_key_value_heads=...)  # MistralConfig's 8, for 4 heads


def test_qwen2_has_biases_that_no_key_names(tmp_path):
    names = shapes(read(tmp_path, "qwen2"))
    assert {"blocks.0.attn.q.bias", "blocks.0.attn.k.bias", "blocks.0.attn.v.bias"} <= names.keys()
    assert "blocks.0.attn.o.bias" not in names


def test_qwen3_has_norms_of_the_width_of_a_head(tmp_path):
    sizes = shapes(read(tmp_path, "qwen3"))
    assert sizes["blocks.2.attn.q_norm.weight"] == sizes["blocks.2.attn.k_norm.weight"] == (8,)
    assert sizes["blocks.2.attn.q.weight"] == (32, 20)


@pytest.mark.parametrize("name", FAMILIES)
def test_out_and_in_again_is_the_same(name, tmp_path):
    family, settings = FAMILIES[name]
    getattr(transformers, DIALECTS[family].config_class)(**settings).save_pretrained(tmp_path)
    config = read_config(tmp_path).model
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config
    (tmp_path / "config.json").write_text(json.dumps(to_huggingface(config)))
    assert read_config(tmp_path).model == config
    again = transformers.AutoConfig.from_pretrained(tmp_path)
    assert type(again).__name__ == DIALECTS[family].config_class


def test_a_manifest_of_before_these_fields_is_read(tmp_path):
    config = read(tmp_path, "mistral", sliding_window=None)
    new = ("norm_offset", "qk_norm", "rotary_dim", "window", "parallel_residual", "embedding_scale")
    assert from_dict({k: v for k, v in to_dict(config).items() if k not in new}) == config


def test_layers_keep_their_windows_when_the_model_is_cut_or_grows(tmp_path):
    config = read(tmp_path, "qwen2")
    assert config.window == (None, 8, 8)
    assert config.with_layers(2).window == (None, 8)
    assert config.with_layers(4).window == (None, 8, 8, 8)
    assert what_if(config, num_hidden_layers=5).ok
    with pytest.raises(ConfigError, match="each layer has its window"):
        from_dict({**to_dict(config), "num_hidden_layers": 2})
