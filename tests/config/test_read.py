"""Every key has a class, every field a source, and nothing wrong goes through."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindport.config import read_config
from mindport.config.read import inspect_config
from mindport.errors import ConfigError, FileError

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 97,
    "hidden_size": 40,
    "intermediate_size": 72,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 97, "n_embd": 48, "n_layer": 3,
    "n_head": 4, "n_positions": 32, "n_inner": None, "activation_function": "gelu_new",
}  # fmt: skip


@pytest.fixture
def write(tmp_path: Path):
    def _write(base: dict, **changes: object) -> Path:
        content = {**base, **changes}
        path = tmp_path / "config.json"
        path.write_text(json.dumps({key: value for key, value in content.items() if value is not ...}))
        return path

    return _write


def keys(report) -> dict[str, str]:
    return {row.key: row.state for row in report.keys}


def sources(report) -> dict[str, str]:
    return {row.field: row.source for row in report.fields}


def test_every_key_has_one_class_and_every_field_a_source(write):
    report = read_config(write(LLAMA, use_cache=True))
    assert set(keys(report)) == {*LLAMA, "use_cache"}
    assert keys(report)["use_cache"] == "harmless"
    assert keys(report)["rope_theta"] == "mapped"
    assert {row.field for row in report.fields} >= {"rope", "norm", "norm_eps", "head_dim", "attention_out_bias"}
    assert sources(report)["initializer_range"] == "default"
    assert sources(report)["norm"] == "family"


def test_values_arrive(write):
    model = read_config(write(LLAMA)).model
    assert (model.head_dim, model.num_key_value_heads, model.norm_eps) == (8, 2, 1e-5)
    assert (model.rope.rope_theta, model.rope.rope_type, model.dtype) == (500000.0, "default", "bfloat16")
    assert (model.norm, model.gated_mlp, model.tie_word_embeddings) == ("rms", True, True)


def test_gpt2_derives_what_it_has_no_key_for(write):
    report = read_config(write(GPT2))
    model = report.model
    assert (model.intermediate_size, model.head_dim, model.num_key_value_heads) == (192, 12, 4)
    assert keys(report)["n_inner"] == "derived"
    assert sources(report)["head_dim"] == "derived"
    assert model.tie_word_embeddings
    assert model.hidden_act == "gelu_tanh"


def test_null_and_missing_kv_heads_mean_all_heads(write):
    for value in (None, ...):
        report = read_config(write(LLAMA, num_key_value_heads=value))
        assert report.model.num_key_value_heads == 4
        assert sources(report)["num_key_value_heads"] == "derived"


def test_attention_bias_is_one_key_for_two_fields(write):
    model = read_config(write(LLAMA, attention_bias=True)).model
    assert model.qkv_bias
    assert model.attention_out_bias


@pytest.mark.parametrize(
    ("changes", "key", "state", "fragment"),
    [
        ({"surprise": 1}, "surprise", "unknown", "allow it by name"),
        ({"sliding_window": 8}, "sliding_window", "refused", "another family"),
        ({"quantization_config": {"bits": 4}}, "quantization_config", "refused", "dequantise"),
        ({"auto_map": {"AutoModel": "x.Y"}}, "auto_map", "refused", "never executed"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures", "refused", "other heads"),
        ({"hidden_act": "gelu_10"}, "hidden_act", "refused", "one of gelu"),
        ({"num_hidden_layers": "3"}, "num_hidden_layers", "refused", "positive whole number"),
        ({"num_hidden_layers": True}, "num_hidden_layers", "refused", "positive whole number"),
        ({"num_hidden_layers": -3}, "num_hidden_layers", "refused", "positive whole number"),
        ({"rms_norm_eps": 0}, "rms_norm_eps", "refused", "positive number"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings", "refused", "true or false"),
        ({"eos_token_id": [2, -1]}, "eos_token_id", "refused", "token id"),
        ({"dtype": "float32"}, "torch_dtype", "refused", "dtype says 'float32'"),
        ({"torch_dtype": "float8_e4m3fn"}, "torch_dtype", "refused", "bfloat16"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling", "refused", "factor"),
        ({"rope_scaling": {"type": "su", "factor": 2.0}}, "rope_scaling", "refused", "rope_type one of"),
        ({"rope_parameters": {"rope_theta": 1e4}}, "rope_parameters", "refused", "one value of rope_theta"),
        ({"is_decoder": True}, "is_decoder", "refused", "cross-attention"),
    ],
)
def test_a_bad_key_stops_and_says_why(write, changes, key, state, fragment):
    path = write(LLAMA, **changes)
    row = next(row for row in inspect_config(path).keys if row.key == key)
    assert row.state == state
    assert fragment in row.note
    with pytest.raises(ConfigError, match=key):
        read_config(path)


def test_an_unknown_key_can_be_allowed_by_name_and_a_refused_one_cannot(write):
    assert read_config(write(LLAMA, surprise=1), allow=["surprise"]).ok
    with pytest.raises(ConfigError, match="sliding_window"):
        read_config(write(LLAMA, sliding_window=8), allow=["sliding_window"])


@pytest.mark.parametrize("key", ["vocab_size", "hidden_size", "num_attention_heads", "intermediate_size"])
def test_a_missing_key_stops(write, key):
    with pytest.raises(ConfigError, match=f"{key} is missing"):
        read_config(write(LLAMA, **{key: ...}))


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"num_key_value_heads": 3}, "share key/value heads"),
        ({"head_dim": ..., "hidden_size": 42}, "fill hidden_size"),
        ({"head_dim": 7}, "rotary positions"),
        ({"eos_token_id": 97}, "eos_token_id is a token"),
        ({"pad_token_id": 200}, "pad_token_id is a token"),
    ],
)
def test_a_broken_constraint_stops(write, changes, constraint):
    with pytest.raises(ConfigError, match=constraint):
        read_config(write(LLAMA, **changes))


def test_head_dim_may_differ_from_hidden_over_heads(write):
    assert read_config(write(LLAMA, hidden_size=44)).model.dims["q"] == 32


def test_unsupported_family_names_the_supported_ones(write):
    with pytest.raises(ConfigError, match=r"bloom[\s\S]*gpt2, gpt_neox, llama, mistral"):
        read_config(write(LLAMA, model_type="bloom"))
    with pytest.raises(ConfigError, match="family"):
        read_config(write(LLAMA, model_type=["llama"]))


def test_three_kinds_of_wrong_folder(tmp_path):
    with pytest.raises(FileError, match="no such directory"):
        read_config(tmp_path / "absent")
    with pytest.raises(FileError, match="empty"):
        read_config(tmp_path)
    (tmp_path / "model.gguf").touch()
    with pytest.raises(FileError, match="GGUF"):
        read_config(tmp_path)
    (tmp_path / "model.gguf").rename(tmp_path / "model.safetensors")
    with pytest.raises(FileError, match=r"no config\.json"):
        read_config(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "\x00"])
def test_a_damaged_file_is_an_error_not_a_traceback(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises((FileError, ConfigError)):
        read_config(tmp_path)


def test_published_parameter_counts():
    """Against the totals on the models' own pages."""
    from mindport.config import schema
    from mindport.config.model_config import ModelConfig, Rope

    llama = {"model_type": "llama", "norm": "rms", "position": "rope", "gated_mlp": True, "hidden_act": "silu",
             "norm_eps": 1e-5, "qkv_bias": False, "attention_out_bias": False, "mlp_bias": False,
             "rope": Rope(rope_theta=5e5)}  # fmt: skip
    llama3_8b = ModelConfig(
        vocab_size=128256, hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
        head_dim=128, intermediate_size=14336, max_position_embeddings=8192, tie_word_embeddings=False, **llama,
    )  # fmt: skip
    smollm2 = ModelConfig(
        vocab_size=49152, hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        head_dim=64, intermediate_size=1536, max_position_embeddings=8192, tie_word_embeddings=True, **llama,
    )  # fmt: skip
    gpt2 = ModelConfig(
        model_type="gpt2", vocab_size=50257, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
        num_key_value_heads=12, head_dim=64, intermediate_size=3072, max_position_embeddings=1024,
        hidden_act="gelu_tanh", gated_mlp=False, norm="layer", norm_eps=1e-5, position="learned", qkv_bias=True,
        attention_out_bias=True, mlp_bias=True, tie_word_embeddings=True,
    )  # fmt: skip
    assert schema.count(llama3_8b) == 8_030_261_248
    assert schema.count(smollm2) == 134_515_008
    assert schema.count(gpt2) == 124_439_808
