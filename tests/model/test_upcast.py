"""GPT-2's `reorder_and_upcast_attn`: nothing in float32; below it, scores that are not rounded before the softmax."""

from __future__ import annotations

import dataclasses

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Tensor

from mindport.model import kernels
from tests.families import GPT2, build
from tests.model.reference import Pair, token_ids

T, LIMIT = 23, 1e-5
SHARP = 40  # how much larger the scores are than usual, so that their rounding shows


def _sharp(model):
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_attn.weight[:, : 2 * model.config.n_embd] *= SHARP**0.5
            block.attn.c_attn.bias[: 2 * model.config.n_embd] *= SHARP**0.5
    return model


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    made = Pair(tmp_path_factory.mktemp("upcast"), "gpt2", {**GPT2, "reorder_and_upcast_attn": True})
    _sharp(made.torch)  # the values of ours are views of the same memory
    return made


def logits(dtype, upcast):
    """Of the real class in a precision, the same weights."""
    model = _sharp(build("gpt2", {**GPT2, "reorder_and_upcast_attn": upcast})).to(dtype)
    return model(torch.from_numpy(token_ids(T)).long()).logits.detach().float().numpy()


def ours(pair, upcast, dtype):
    config = dataclasses.replace(pair.config, upcast_attention=upcast)
    return pair.ours(config, dtype=dtype)(Tensor(token_ids(T))).asnumpy()


def test_the_key_is_read_and_does_nothing_in_float32(pair):
    assert pair.config.upcast_attention and pair.ours().blocks[1].attn.attend.upcast
    expected = pair.logits(token_ids(T))
    assert np.abs(expected - logits(torch.float32, False)).max() < LIMIT
    assert max(np.abs(ours(pair, upcast, "float32") - expected).max() for upcast in (True, False)) < LIMIT


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_below_float32_the_real_class_computes_something_else(dtype):
    """So that to pass over the key would be a fault there."""
    exact, right, wrong = logits(torch.float32, True), logits(dtype, True), logits(dtype, False)
    assert np.abs(right - wrong).max() > 0.01
    assert np.abs(right - exact).mean() < np.abs(wrong - exact).mean()


def _error(upcast):
    """How far half precision is from exact attention; scores lie around 1024, where it counts by ones, less apart."""
    random = np.random.default_rng(3)
    q, k, v = (
        (random.standard_normal((1, heads, 19, 16)) * size + centre).astype(np.float16)
        for heads, size, centre in ((4, 0.1, 16), (2, 0.1, 16), (2, 1, 0))
    )
    wide = [torch.from_numpy(x.astype(np.float64)) for x in (q, k, v)]
    exact = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=True, enable_gqa=True).numpy()
    settings = {"heads": 4, "kv_heads": 2, "head_dim": 16, "scale": 0.25, "dropout": 0.0, "dtype": "float16"}
    given = (Tensor(np.ascontiguousarray(x.swapaxes(1, 2))) for x in (q, k, v))  # (B, T, heads, D)
    got = kernels.attention(**settings, upcast=upcast)(*given)
    assert got.dtype == ms.float16
    return np.abs(got.asnumpy().astype(np.float64).swapaxes(1, 2) - exact).max()


def test_our_scores_are_not_rounded_and_would_be():
    assert _error(upcast=True) < 0.005 < 0.05 < _error(upcast=False)
