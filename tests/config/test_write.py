"""Out and in again is the same configuration, for any that is legal."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.config import from_dict, read_config, to_dict
from mindport.config.dialects import DIALECTS
from mindport.config.schema import shapes
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
        "num_key_value_heads": kv, "head_dim": draw(sizes) * 2, "max_position_embeddings": 32,
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


def test_transformers_reads_what_we_write():
    transformers = pytest.importorskip("transformers")
    model = read({"model_type": "llama", "vocab_size": 97, "hidden_size": 40, "intermediate_size": 72,
                  "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
                  "max_position_embeddings": 64, "rope_theta": 5e5})  # fmt: skip
    theirs = transformers.LlamaConfig(**to_huggingface(model))
    assert (theirs.head_dim, theirs.num_key_value_heads, theirs.rope_parameters["rope_theta"]) == (8, 2, 5e5)
