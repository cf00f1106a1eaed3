"""The cut model keeps its proportions, and what is set aside is what costs no time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindport.config import read_config
from mindport.errors import UsageError
from mindport.sources import resolve
from mindport.tuning import cut_model
from mindport.tuning.workload import EFFORTS, effort, has_peers, shaped


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-gpt2"])
@pytest.mark.parametrize("size", EFFORTS)
def test_layers_and_vocabulary_are_cut_in_proportion(name, size):
    whole, cut = read_config(resolve(name)).model, cut_model(resolve(name), size).config
    layers = min(EFFORTS[size].layers, whole.num_hidden_layers)
    assert cut.num_hidden_layers == layers
    share = whole.vocab_size * layers / whole.num_hidden_layers
    assert share <= cut.vocab_size < share + 64
    assert (cut.hidden_size, cut.intermediate_size) == (whole.hidden_size, whole.intermediate_size)
    assert cut.attn_pdrop == cut.resid_pdrop == cut.embd_pdrop == 0
    assert cut.max_position_embeddings >= EFFORTS[size].tokens


def test_a_longer_sequence_lengthens_the_context():
    config = cut_model(resolve("tiny-gpt2"), "smoke").config
    assert shaped(config, 1, 4096).config.max_position_embeddings == 4096
    assert shaped(config, 1, 8).config == config


def test_the_peers_compute_two_families():
    llama, gpt2 = (cut_model(resolve(name), "smoke").config for name in ("tiny-llama", "tiny-gpt2"))
    assert has_peers(llama) and has_peers(gpt2)
    assert not has_peers(replace(gpt2, hidden_act="gelu")) and not has_peers(replace(llama, model_type="qwen3"))


def test_an_unknown_size_is_refused():
    with pytest.raises(UsageError, match="size"):
        effort("large")
