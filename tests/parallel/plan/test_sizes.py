"""Parameters and FLOPs come from the schema, whatever a model has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.config.schema import count
from mindport.parallel.plan.published import published_model
from mindport.parallel.plan.sizes import sizes
from tests.parallel.plan.models import GPT, LLAMA, MODELS, TIED

FLAGS = ("gated_mlp", "qk_norm", "qkv_bias", "attention_out_bias", "mlp_bias", "tie_word_embeddings")


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(MODELS)), st.lists(st.booleans(), min_size=6, max_size=6), st.integers(1, 5))
def test_every_parameter_is_in_one_part(name, flags, layers):
    config = replace(MODELS[name], num_hidden_layers=layers, **dict(zip(FLAGS, flags, strict=True)))
    found = sizes(config)
    assert found.parameters == count(config)
    assert found.layer.split > found.layer.whole > 0 and found.matrices <= found.layer.count


@pytest.mark.parametrize(("name", "billions"), [("LLaMA2-7B", 6.74), ("LLaMA2-13B", 13.02), ("LLaMA2-70B", 68.98),
                                                ("LLaMA3-8B", 8.03), ("LLaMA3-70B", 70.55)])  # fmt: skip
def test_published_models_have_their_size(name, billions):
    assert sizes(published_model(name)).parameters / 1e9 == pytest.approx(billions, abs=0.006)


def test_flops_of_a_token_are_the_usual_ones():
    found = sizes(TIED)
    matrices = 4 * 256 * 256 + 3 * 256 * 512
    assert found.matrices == matrices
    assert found.flops(512) == 6 * (6 * matrices + 1024 * 256) + 12 * 6 * 256 * 512


def test_a_window_looks_no_further():
    windowed = sizes(replace(LLAMA, window=(None, *[100] * 6)))
    assert windowed.keys(512) == (512 + 6 * 100) / 7 and windowed.keys(50) == 50
    assert windowed.flops(512) < sizes(LLAMA).flops(512)


def test_the_table_of_positions_is_whole_and_the_head_is_not():
    found = sizes(GPT)
    assert found.embedding.whole == 2048 * 256 and found.embedding.split == 1536 * 256 == found.table
    assert found.head.split == 0 and sizes(LLAMA).head.split == 1024 * 256
