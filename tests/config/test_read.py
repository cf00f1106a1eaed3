"""Every key has a class, every field a source, and nothing wrong goes through."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mindport.config import read_config
from mindport.config.dialects import DIALECTS
from mindport.config.read import TEXT, inspect_config
from mindport.config.relatives import RELATIVES
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
YARN = {"type": "yarn"}
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
        ({"num_hidden_layers": "three"}, "num_hidden_layers", "refused", "positive whole number"),
        ({"num_hidden_layers": "3_0"}, "num_hidden_layers", "refused", "positive whole number"),
        ({"num_hidden_layers": "3.5"}, "num_hidden_layers", "refused", "positive whole number"),
        ({"num_hidden_layers": "-3"}, "num_hidden_layers", "refused", "positive whole number"),
        ({"rms_norm_eps": "nan"}, "rms_norm_eps", "refused", "positive number"),
        ({"rope_scaling": {"type": "linear", "factor": True}}, "rope_scaling", "refused", "factor"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config", "refused", "first: fp8"),
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}},
            "quantization_config",
            "refused",
            "gptq, 4 bits",
        ),
        ({"quantization_config": {"load_in_8bit": True}}, "quantization_config", "refused", "bitsandbytes, 8 bits"),
        ({"quantization_config": {"load_in_4bit": True}}, "quantization_config", "refused", "bitsandbytes, 4 bits"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "quantization", "refused", "MLX, 4 bits"),
        ({"quantization_config": "int8"}, "quantization_config", "refused", "not said"),
        ({"text_config": {"hidden_size": 8}}, "text_config", "refused", "the values are in text_config"),
        ({"num_experts": 4}, "num_experts", "refused", "mixture-of-experts"),
        ({"n_routed_experts": 4}, "n_routed_experts", "refused", "mixture-of-experts"),
        ({"bias": True}, "bias", "refused", "attention_bias"),
        ({"num_hidden_layers": True}, "num_hidden_layers", "refused", "positive whole number"),
        ({"num_hidden_layers": -3}, "num_hidden_layers", "refused", "positive whole number"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers", "refused", "at most 10,000 layers"),
        ({"num_hidden_layers": 10**400}, "num_hidden_layers", "refused", "positive whole number"),
        ({"rms_norm_eps": 10**400}, "rms_norm_eps", "refused", "positive number"),
        ({"rope_theta": 10**400}, "rope_theta", "refused", "positive number"),
        ({"vocab_size": 10**4000}, "vocab_size", "refused", "at most 2,147,483,647"),
        ({"rope_parameters": "yarn"}, "rope_parameters", "refused", "as an object"),
        ({"rope_theta": 1}, "rope_theta", "refused", "above 1"),
        ({"rms_norm_eps": 0}, "rms_norm_eps", "refused", "positive number"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings", "refused", "true or false"),
        ({"eos_token_id": [2, -1]}, "eos_token_id", "refused", "token id"),
        ({"dtype": "float32"}, "torch_dtype", "refused", "dtype says 'float32'"),
        ({"torch_dtype": "float8_e4m3fn"}, "torch_dtype", "refused", "bfloat16"),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling", "refused", "factor"),
        ({"rope_scaling": {"type": "su", "factor": 2.0}}, "rope_scaling", "refused", "rope_type one of"),
        ({"rope_parameters": {"rope_theta": 1e4}}, "rope_parameters", "refused", "one value of rope_theta"),
        ({"rope_interleaved": True}, "rope_interleaved", "refused", "halves"),
        (
            {"rope_scaling": {"type": "yarn", "original_max_position_embeddings": 0}},
            "rope_scaling",
            "refused",
            "positive",
        ),
        (
            {"rope_scaling": {"type": "yarn", "original_max_position_embeddings": "x"}},
            "rope_scaling",
            "refused",
            "posit",
        ),
        ({"is_decoder": True}, "is_decoder", "refused", "cross-attention"),
        ({"rms_norm_eps": None}, "rms_norm_eps", "refused", "leave the key out for the default, 1e-06"),
        ({"tie_word_embeddings": None}, "tie_word_embeddings", "refused", "null says nothing"),
        ({"hidden_act": None}, "hidden_act", "refused", "null says nothing"),
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
    ],
)
def test_a_broken_constraint_stops(write, changes, constraint):
    with pytest.raises(ConfigError, match=constraint):
        read_config(write(LLAMA, **changes))


def test_a_token_beyond_the_vocabulary_is_a_warning(write):
    """No weight depends on it, and real files carry it: GPT-2's 50256 beside a vocabulary of one's own."""
    report = read_config(write(LLAMA, eos_token_id=[2, 97], pad_token_id=200))
    states = {row.name: row.state for row in report.constraints}
    assert states["eos_token_id is a token"] == states["pad_token_id is a token"] == "warning"


def test_head_dim_may_differ_from_hidden_over_heads(write):
    assert read_config(write(LLAMA, hidden_size=44)).model.dims["q"] == 32


def test_unsupported_family_names_the_supported_ones(write):
    with pytest.raises(ConfigError, match=r"bloom[\s\S]*gpt2, gpt_neox, llama, mistral"):
        read_config(write(LLAMA, model_type="bloom"))
    with pytest.raises(ConfigError, match="family"):
        read_config(write(LLAMA, model_type=["llama"]))


@pytest.mark.parametrize(
    ("family", "near"),
    [
        ("falcon", "gpt_neox"), ("bloom", "gpt_neox"), ("opt", "gpt2"), ("mpt", "gpt2"), ("mixtral", "mistral"),
        ("gemma3_text", "gemma"), ("qwen", "qwen2"), ("internlm2", "llama"), ("yi", "llama"), ("baichuan", "llama"),
        ("phi", "phi3"), ("phimoe", "phi3"), ("qwen2_moe", "qwen2"), ("lama", "llama"), ("mistrall", "mistral"),
    ],
)  # fmt: skip
def test_an_unsupported_family_is_told_the_nearest_one(write, family, near):
    with pytest.raises(ConfigError, match=f"the nearest supported one is {near}[,;]"):
        read_config(write(LLAMA, model_type=family))


def test_a_family_that_nothing_is_like_has_no_nearest_one(write):
    with pytest.raises(ConfigError) as caught:
        read_config(write(LLAMA, model_type="zzz"))
    assert "nearest" not in str(caught.value)


def test_every_relative_is_a_family_of_ours():
    assert {near for near, _ in RELATIVES.values()} <= set(DIALECTS)


def test_an_unsupported_family_says_all_that_stands_against_it(write):
    changes = {"num_local_experts": 8, "num_experts_per_tok": 2, "quantization_config": {"quant_method": "fp8"}}
    with pytest.raises(ConfigError) as caught:
        read_config(write(LLAMA, model_type="mixtral", **changes))
    assert "num_local_experts, num_experts_per_tok: mixture-of-experts" in caught.value.got
    assert "dequantise them first: fp8" in caught.value.got


def test_a_multimodal_file_is_called_so_whether_or_not_it_names_its_family(write):
    nested = {"text_config": {"model_type": "llama", "tie_word_embeddings": True}}
    for model_type in (..., "llama", "llava"):
        with pytest.raises(ConfigError, match=r"text_config[\s\S]*tie_word_embeddings"):
            read_config(write(LLAMA, model_type=model_type, **nested))


def test_a_number_written_as_text_is_read_with_a_notice(write):
    texts = {"num_hidden_layers": "3", "num_attention_heads": "4", "rms_norm_eps": "1e-5", "rope_theta": "500000.0",
             "max_position_embeddings": "64"}  # fmt: skip
    said, plain = read_config(write(LLAMA, **texts, head_dim=...)), read_config(write(LLAMA, head_dim=...))
    assert said.model == plain.model and said.model.head_dim == 10
    assert {row.key for row in said.keys if TEXT in row.note} == set(texts)
    noted = {row.field for row in said.fields if row.source == "explicit" and TEXT in row.note}
    assert noted >= {"num_hidden_layers", "num_attention_heads", "norm_eps", "max_position_embeddings"}
    assert not any(TEXT in row.note for row in [*plain.keys, *plain.fields])


QWEN2 = {**{k: x for k, x in LLAMA.items() if k not in ("attention_bias", "mlp_bias")}, "model_type": "qwen2",
         "architectures": ["Qwen2ForCausalLM"]}  # fmt: skip
MISTRAL = {**QWEN2, "model_type": "mistral", "architectures": ["MistralForCausalLM"]}
PHI3 = {**QWEN2, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "rope_theta": ...,
        "original_max_position_embeddings": 32}  # fmt: skip
LONG = {"rope_type": "longrope", "original_max_position_embeddings": 32, "rope_theta": 1e4}
NESTED = {  # the base → the settings with texts, the same with numbers, the fields that come of them
    "before 4.45": (LLAMA, {"rope_scaling": {"type": "linear", "factor": "2.5"}},
                    {"rope_scaling": {"type": "linear", "factor": 2.5}}, {"rope"}),
    "before 5": (LLAMA, {"rope_scaling": {
        "rope_type": "llama3", "factor": "8.0", "low_freq_factor": "1", "high_freq_factor": "4e0",
        "original_max_position_embeddings": "32"}}, {"rope_scaling": {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32}}, {"rope"}),
    "since 5": (LLAMA, {"rope_theta": ..., "rope_parameters": {"rope_type": "default", "rope_theta": "1e6"}},
                {"rope_theta": ..., "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, {"rope"}),
    "both spellings": (LLAMA, {"rope_scaling": {"type": "linear", "factor": "2"},
                               "rope_parameters": {"rope_type": "linear", "factor": 2.0}},
                       {"rope_scaling": {"type": "linear", "factor": 2}}, {"rope"}),
    "lists": (PHI3, {"rope_scaling": {**LONG, "short_factor": ["1.0", 1.5, "2", 1], "long_factor": ["2"] * 4}},
              {"rope_scaling": {**LONG, "short_factor": [1.0, 1.5, 2, 1], "long_factor": [2] * 4}}, {"rope"}),
    "a window": (MISTRAL, {"sliding_window": "8"}, {"sliding_window": 8}, {"window"}),
    "windows": (QWEN2, {"use_sliding_window": True, "sliding_window": "8", "max_window_layers": "1"},
                {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, {"window"}),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_a_number_written_as_text_a_level_deeper_is_read_with_a_notice(write, name):
    base, texts, numbers, fields = NESTED[name]
    said, plain = read_config(write(base, **texts)), read_config(write(base, **numbers))
    assert said.model == plain.model
    noted = {row.key for row in said.keys if row.note.endswith(TEXT)}
    assert noted == {key for key, value in texts.items() if _texts(value)}
    assert {row.field for row in said.fields if TEXT in row.note} == fields
    assert not any(TEXT in row.note for row in [*plain.keys, *plain.fields])


def _texts(value):
    """Whether a value is, or holds, a number written as text."""
    if isinstance(value, dict):
        return any(_texts(item) for item in value.values())
    if isinstance(value, list):
        return any(map(_texts, value))
    return isinstance(value, str) and value[:1].isdigit()


@pytest.mark.parametrize(
    ("base", "changes", "key", "says"),
    [
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": "two"}}, "rope_scaling", "not 'two'"),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": "-2"}}, "rope_scaling", "positive number, not '-2'"),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": "nan"}}, "rope_scaling", "positive number, not 'nan'"),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": "2_0"}}, "rope_scaling", "not '2_0'"),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": ""}}, "rope_scaling", "not ''"),
        (LLAMA, {"rope_scaling": {"type": "2", "factor": "2"}}, "rope_scaling", "not '2'"),
        (LLAMA, {"rope_scaling": {"type": "dynamic", "factor": "2", "original_max_position_embeddings": "64.5"}},
         "rope_scaling", "original_max_position_embeddings"),
        (LLAMA, {"rope_scaling": {"type": "linear", "factor": "2"}, "rope_parameters": {"factor": "3"}},
         "rope_parameters", "one value of factor"),
        (PHI3, {"rope_scaling": {**LONG, "short_factor": ["1", "x", "1", "1", "1"], "long_factor": [2] * 5}},
         "rope_scaling", "short_factor"),
    ],
)  # fmt: skip
def test_what_is_no_number_a_level_deeper_is_still_refused(write, base, changes, key, says):
    rows = {row.key: row for row in inspect_config(write(base, **changes)).keys}
    assert rows[key].state == "refused" and says in rows[key].note


@pytest.mark.parametrize("size", ["none", "8.5", "-8", "0", "8k"])
@pytest.mark.parametrize("base", [MISTRAL, QWEN2])
def test_a_window_that_is_no_number_is_still_refused(write, base, size):
    report = inspect_config(write(base, use_sliding_window=True, sliding_window=size, max_window_layers=1))
    assert not report.ok and any("sliding_window: a positive whole number" in problem for problem in report.problems)


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


def test_published_smollm2_keys_and_early_exports_go_across(write):
    """Keys that real files carry: the maker's marks, no padding token as -1, a wide initial spread."""
    report = read_config(
        write(LLAMA, is_llama_config=True, rope_interleaved=False, pad_token_id=-1, initializer_range=1.0)
    )
    assert report.model.pad_token_id is None


def test_the_path_is_said_where_the_family_is_wrong(write):
    path = write(LLAMA, model_type="unheard")
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert caught.value.where == f"{path}: model_type"


def test_a_dynamic_rope_needs_a_head_of_more_than_two(write):
    scaling = {"type": "dynamic", "factor": 2.0}
    assert read_config(write(LLAMA, head_dim=4, rope_scaling=scaling)).ok
    with pytest.raises(ConfigError, match="dynamic rotary positions"):
        read_config(write(LLAMA, head_dim=2, rope_scaling=scaling))


def test_a_pipe_or_device_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(FileError, match="device or pipe"):
            read_config(path)
