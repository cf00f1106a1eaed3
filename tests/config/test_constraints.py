"""Which layouts a configuration allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindport.config.constraints import fused_attention, layout_table, pipeline, tensor_parallel

from .test_write import read

CONFIG = read({"model_type": "llama", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96,
               "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16})  # fmt: skip


@pytest.mark.parametrize(("degree", "state"), [(1, "pass"), (2, "pass"), (3, "failed"), (4, "pass"), (8, "failed")])
def test_tensor_parallel_must_divide_heads_and_kv_heads(degree, state):
    assert tensor_parallel(CONFIG, degree).state == state


def test_the_reason_is_named():
    assert "num_key_value_heads 4" in tensor_parallel(CONFIG, 8).got


def test_pipeline_needs_a_layer_a_stage():
    assert pipeline(CONFIG, 3).ok
    assert not pipeline(CONFIG, 4).ok


def test_fused_attention_wants_multiples_of_sixteen():
    assert fused_attention(CONFIG).state == "pass"
    assert fused_attention(replace(CONFIG, head_dim=24)).state == "warning"


def test_the_table_lists_every_degree():
    assert len(layout_table(CONFIG, (1, 2)).rows) == 5
