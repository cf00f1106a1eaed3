"""Out and in again is the same configuration, for any that is legal."""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.config import from_dict, read_config, to_dict
from mindport.config.dialects import DIALECTS
from mindport.config.schema import count, shapes
from mindport.config.write import to_huggingface
from mindport.errors import ConfigError

sizes = st.integers(1, 9)
ropes = st.sampled_from([
    None,
    {"rope_type": "linear", "factor": 3.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 8},
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "truncate": False, "mscale": 0.7},
    {"rope_type": "dynamic", "factor": 2.0},
])  # fmt: skip


@st.composite
def llama(draw: st.DrawFn) -> dict:
    groups, kv = draw(sizes), draw(sizes)
    return {
        "model_type": "llama", "vocab_size": draw(st.integers(60, 90)), "hidden_size": draw(sizes) * 4,
        "intermediate_size": draw(sizes) * 7, "num_hidden_layers": draw(sizes), "num_attention_heads": groups * kv,
        "num_key_value_heads": kv, "head_dim": draw(sizes) * 2 + 2, "max_position_embeddings": 32,
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-5])), "rope_theta": 1e5, "rope_scaling": draw(ropes),
        "tie_word_embeddings": draw(st.booleans()), "attention_bias": draw(st.booleans()),
        "mlp_bias": draw(st.booleans()), "eos_token_id": draw(st.sampled_from([None, 2, [2, 3]])),
    }  # fmt: skip


@st.composite
def gpt2(draw: st.DrawFn) -> dict:
    heads = draw(sizes)
    return {
        "model_type": "gpt2", "vocab_size": draw(st.integers(60, 90)), "n_embd": heads * draw(sizes),
        "n_layer": draw(sizes), "n_head": heads, "n_positions": draw(sizes),
        "n_inner": draw(st.sampled_from([None, 11])), "tie_word_embeddings": draw(st.booleans()),
        "activation_function": draw(st.sampled_from(["gelu", "gelu_new", "relu"])),
        "scale_attn_by_inverse_layer_idx": draw(st.booleans()), "eos_token_id": 3,
    }  # fmt: skip


def read(raw: dict):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(raw))
        return read_config(path).model


@settings(max_examples=60, deadline=None)
@given(st.one_of(llama(), gpt2()))
def test_round_trips(raw):
    model = read(raw)
    assert from_dict(json.loads(json.dumps(to_dict(model)))) == model
    assert read(to_huggingface(model)) == model


@settings(max_examples=40, deadline=None)
@given(st.one_of(llama(), gpt2()))
def test_every_parameter_has_a_row_of_its_dialect(raw):
    model = read(raw)
    rows = {name for row in DIALECTS[model.model_type].rows for name in row.hub.split()}
    patterns = {".".join("{}" if part.isdigit() else part for part in name.split(".")) for name in shapes(model)}
    assert patterns <= rows


def test_from_dict_refuses_other_fields():
    with pytest.raises(ConfigError, match="colour"):
        from_dict({"model_type": "gpt2", "colour": "red"})


FIELDS = {"model_type": "llama", "vocab_size": 60, "hidden_size": 8, "intermediate_size": 7, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 32,
          "rope_theta": 1e4}  # fmt: skip
WRONG = [
    ("model_type", "unheard"), ("model_type", 3), ("vocab_size", "60"), ("vocab_size", 60.0), ("vocab_size", None),
    ("num_hidden_layers", True), ("num_hidden_layers", 0), ("num_hidden_layers", -2), ("num_hidden_layers", 10**9),
    ("hidden_size", 10**400), ("norm_eps", "1e-5"), ("norm_eps", None), ("norm_eps", 10**400), ("norm_eps", 0),
    ("norm_eps", float("nan")), ("hidden_act", "gelu_new"), ("hidden_act", ["silu"]), ("norm", "batch"),
    ("position", "alibi"), ("gated_mlp", 1), ("gated_mlp", None), ("tie_word_embeddings", "no"), ("attn_pdrop", 1.5),
    ("eos_token_id", "2"), ("eos_token_id", [2, "3"]), ("bos_token_id", [1]), ("dtype", 32), ("rope", 5),
    ("rope", "yarn"), ("rope", [1]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_in_a_manifest_is_refused_by_the_fields_name(name, value):
    good = to_dict(read(FIELDS))
    assert from_dict(good)
    with pytest.raises(ConfigError) as caught:
        from_dict({**good, name: value})
    assert name in str(caught.value), caught.value


@pytest.mark.parametrize("change", [
    {"rope_type": "linear"}, {"rope_type": "linear", "factor": None}, {"rope_type": "linear", "factor": "2"},
    {"rope_type": "linear", "factor": True}, {"rope_type": "linear", "factor": 0}, {"rope_type": "spiral"},
    {"rope_type": "yarn", "factor": 2.0},
    {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 1.5},
    {"rope_theta": None}, {"rope_theta": 1}, {"rope_theta": 10**400}, {"spin": 1},
    {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8, "low_freq_factor": 4.0,
     "high_freq_factor": 1.0},
])  # fmt: skip
def test_a_rope_without_what_its_type_needs_is_refused(change):
    good = to_dict(read(FIELDS))
    with pytest.raises(ConfigError, match="rope"):
        from_dict({**good, "rope": {**good["rope"], **change}})


@pytest.mark.parametrize(("name", "value"), [("num_key_value_heads", 3), ("head_dim", 3), ("position", "learned")])
def test_values_that_contradict_each_other_are_refused(name, value):
    with pytest.raises(ConfigError):
        from_dict({**to_dict(read(FIELDS)), name: value})


NEW = ("norm_offset", "qk_norm", "rotary_dim", "window", "parallel_residual", "embedding_scale")
LONGROPE = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 8,
            "short_factor": [1.0, 1.5], "long_factor": [2.0, 4.0]}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [
    ("norm_offset", 2), ("norm_offset", True), ("norm_offset", 1.0), ("qk_norm", 1), ("rotary_dim", "2"),
    ("rotary_dim", 2.0), ("window", 5), ("window", [5, "5"]), ("window", [5, 0]), ("window", [True, None]),
    ("window", [5, 2.0]), ("parallel_residual", None), ("embedding_scale", "2"), ("embedding_scale", 0),
    ("rope", {**LONGROPE, "short_factor": None}), ("rope", {**LONGROPE, "short_factor": 2.0}),
    ("rope", {**LONGROPE, "long_factor": [2.0, "4"]}), ("rope", {**LONGROPE, "long_factor": [2.0, 0]}),
    ("rope", {**LONGROPE, "long_factor": []}),
])  # fmt: skip
def test_a_wrong_value_of_what_sets_families_apart_is_refused(name, value):
    good = to_dict(read(FIELDS))
    with pytest.raises(ConfigError) as caught:
        from_dict({**good, name: value})
    assert name in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [
    ("window", [5]), ("rotary_dim", 3), ("rotary_dim", 6), ("rotary_dim", 0),
    ("rope", {**LONGROPE, "short_factor": [1.0]}),
])  # fmt: skip
def test_what_sets_families_apart_must_fit_the_model(name, value):
    with pytest.raises(ConfigError):
        from_dict({**to_dict(read(FIELDS)), name: value})


def test_lists_of_a_manifest_are_tuples_again():
    found = from_dict({**to_dict(read(FIELDS)), "window": [5, None], "rope": LONGROPE, "rotary_dim": 4})
    assert found.window == (5, None) and found.rope.long_factor == (2.0, 4.0)
    assert from_dict(to_dict(found)) == found == from_dict(json.loads(json.dumps(to_dict(found))))


def test_a_manifest_from_before_these_families_reads_as_before():
    model = read(FIELDS)
    older = {name: value for name, value in to_dict(model).items() if name not in NEW}
    older["rope"] = {name: value for name, value in older["rope"].items() if "short" not in name and "long" not in name}
    assert from_dict(older) == model


@pytest.mark.parametrize("values", [None, [], "x", 3])
def test_what_is_no_object_is_refused(values):
    with pytest.raises(ConfigError, match="not a model configuration"):
        from_dict(values)


@settings(max_examples=20, deadline=None)
@given(st.one_of(llama(), gpt2()))
def test_the_count_is_that_of_the_shapes(raw):
    model = read(raw)
    assert count(model) == sum(math.prod(shape) for shape in shapes(model).values())


def test_counting_takes_no_time_that_grows_with_the_layers():
    model = dataclasses.replace(read(FIELDS), num_hidden_layers=10**12)
    one, two = (count(dataclasses.replace(model, num_hidden_layers=n)) for n in (1, 2))
    assert count(model) == one + (two - one) * (10**12 - 1)


def test_transformers_reads_what_we_write():
    transformers = pytest.importorskip("transformers")
    model = read({"model_type": "llama", "vocab_size": 97, "hidden_size": 40, "intermediate_size": 72,
                  "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                  "max_position_embeddings": 64, "rope_theta": 5e5})  # fmt: skip
    theirs = transformers.LlamaConfig(**to_huggingface(model))
    assert (theirs.head_dim, theirs.num_key_value_heads, theirs.rope_parameters["rope_theta"]) == (8, 2, 5e5)
