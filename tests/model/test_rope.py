"""Inverse frequencies against transformers' own functions, for every type."""

from __future__ import annotations

import numpy as np
import pytest
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from mindport.config.rope import join_rope, read_rope
from mindport.model.rope import inverse_frequencies

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
KINDS = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 2.5},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": YARN,
    "yarn mscale": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.2},
    "yarn attention factor": {**YARN, "attention_factor": 1.3},
    "yarn not truncated": {**YARN, "truncate": False, "beta_fast": 20.0, "beta_slow": 2.0},
    "yarn shrinking": {**YARN, "factor": 0.5},
    "llama3": {**LLAMA3, "original_max_position_embeddings": 2048},
    "llama3 narrow band": {**LLAMA3, "high_freq_factor": 1.5, "original_max_position_embeddings": 512},
}


def both(values: dict, head_dim: int, tokens: int, theta: float):
    values = {"rope_theta": theta, **values}
    config = LlamaConfig(hidden_size=4 * head_dim, num_attention_heads=4, max_position_embeddings=8192,
                         rope_parameters=dict(values))  # fmt: skip
    plain = LlamaRotaryEmbedding.compute_default_rope_parameters
    expected = ROPE_INIT_FUNCTIONS.get(values["rope_type"], plain)(config, "cpu", seq_len=tokens)
    ours = read_rope(join_rope({"max_position_embeddings": 8192, "rope_parameters": values}))
    return inverse_frequencies(ours, head_dim, tokens), expected


@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
@pytest.mark.parametrize("head_dim", [8, 24, 64, 128])
@pytest.mark.parametrize("tokens", [5, 8192, 30_000])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_transformers(kind, tokens, head_dim, theta):
    (inv_freq, scaling), (expected, expected_scaling) = both(KINDS[kind], head_dim, tokens, theta)
    assert inv_freq.dtype == np.float32
    assert inv_freq.shape == (head_dim // 2,)
    np.testing.assert_allclose(inv_freq, expected.numpy(), rtol=1e-6)
    assert scaling == pytest.approx(expected_scaling, rel=1e-12)


def test_each_kind_differs_from_the_default():
    default = both(KINDS["default"], 64, 30_000, 10_000.0)[0]
    for kind in set(KINDS) - {"default"}:
        inv_freq, scaling = both(KINDS[kind], 64, 30_000, 10_000.0)[0]
        assert scaling != default[1] or np.abs(inv_freq / default[0] - 1).max() > 0.01, kind


def test_dynamic_depends_on_the_length_beyond_the_context_only():
    within = [both(KINDS["dynamic"], 64, tokens, 10_000.0)[0][0] for tokens in (5, 8192)]
    np.testing.assert_array_equal(*within)
    assert both(KINDS["dynamic"], 64, 8193, 10_000.0)[0][0][-1] < within[0][-1]
