"""Greedy decoding against transformers' own `generate`."""

from __future__ import annotations

import mindspore as ms
import pytest
import torch

from mindport.errors import UsageError
from mindport.model import greedy
from tests.model.reference import execution

PROMPT = [5, 11, 3, 8]


def expected(model, prompt, steps):
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=steps, min_new_tokens=steps,
                         do_sample=False, pad_token_id=0, eos_token_id=None)  # fmt: skip
    return out[0, len(prompt) :].tolist()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_tokens_equal_transformers(pair, name):
    assert greedy(pair(name).ours(), PROMPT, 12) == expected(pair(name).torch, PROMPT, 12)


def test_graph_mode_compiles_once(pair):
    model = pair("gpt2").ours()
    with execution(ms.GRAPH_MODE):
        assert greedy(model, PROMPT, 6) == expected(pair("gpt2").torch, PROMPT, 6)
    assert len(model.compile_cache) == 1


def test_another_model_says_something_else(pair):
    assert greedy(pair("llama mha gelu").ours(), PROMPT, 12) != expected(pair("llama").torch, PROMPT, 12)


@pytest.mark.parametrize(
    ("ids", "steps", "message"),
    [([], 3, "nothing to continue"), ([1, 37], 3, "not in the vocabulary"), ([-1], 3, "not in the vocabulary"),
     ([1] * 39, 2, "longer than the model's positions")],
)  # fmt: skip
def test_bad_input_stops(pair, ids, steps, message):
    with pytest.raises(UsageError, match=message):
        greedy(pair("gpt2").ours(), ids, steps)
