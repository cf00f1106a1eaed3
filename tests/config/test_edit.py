"""Edited copies, and what a change does."""

from __future__ import annotations

import json

import pytest

from mindport.config import read_config
from mindport.config.edit import edited
from mindport.config.whatif import what_if
from mindport.errors import ConfigError, UsageError

from .test_read import GPT2, LLAMA


@pytest.fixture(params=[GPT2, LLAMA], ids=["gpt2", "llama"])
def directory(request, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(request.param))
    return tmp_path


def test_a_field_is_edited_under_the_familys_key(directory):
    assert read_config(edited(directory, num_hidden_layers=5)).model.num_hidden_layers == 5
    assert read_config(directory).model.num_hidden_layers == 3


def test_seven_heads_stop_in_both_families(directory):
    with pytest.raises(ConfigError, match="heads"):
        read_config(edited(directory, num_attention_heads=7))


def test_what_if_counts_and_judges(directory):
    model = read_config(directory).model
    same = what_if(model)
    assert same.ok
    assert same.cache_bytes == 2 * 2 * 3 * model.num_key_value_heads * model.head_dim
    one = what_if(model, num_key_value_heads=1)
    lost = 3 * 2 * (model.num_key_value_heads - 1) * model.head_dim * (model.hidden_size + model.qkv_bias)
    assert one.parameters == same.parameters - lost
    assert not what_if(model, num_key_value_heads=3).ok
    assert "tensor parallel 3" in what_if(model, tensor=3).headline()


@pytest.mark.parametrize(
    "asked", [{"num_attention_heads": 0}, {"num_hidden_layers": -1}, {"tensor": 0}, {"stages": 1.5}, {"heads": 4}]
)
def test_a_change_to_what_is_no_size_is_refused(directory, asked):
    with pytest.raises(UsageError, match=next(iter(asked))):
        what_if(read_config(directory).model, **asked)


@pytest.mark.parametrize("text", ["[]", "{}", '{"model_type": "bloom"}'])
def test_only_a_config_of_a_family_can_be_edited(directory, text):
    (directory / "config.json").write_text(text)
    with pytest.raises(ConfigError):
        edited(directory, vocab_size=9)
