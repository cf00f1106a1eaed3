"""What is fed: long enough to show what a stretched context does, never beyond the table of positions."""

from __future__ import annotations

import pytest

from mindport.config import read_config
from mindport.errors import MappingError
from mindport.parity.inputs import NEW, cotangent, greedy_lengths, length, random_ids, text_ids
from mindport.parity.taps import taps


def config_of(case, name):
    return read_config(case(name).source).model


def test_rows_pass_the_original_context(case):
    assert length(config_of(case, "gpt2-tied")) == 40  # the whole table, not a row more
    assert length(config_of(case, "llama-untied-llama3")) > 16
    assert length(config_of(case, "llama-dynamic")) > 32


def test_the_continuation_stays_in_the_context(case):
    for name in ("gpt2-tied", "llama-dynamic", "llama-untied-llama3"):
        config = config_of(case, name)
        prompt, new = greedy_lengths(config, length(config))
        assert prompt > 0 and 0 < new <= NEW
        assert prompt + new <= config.max_position_embeddings


def test_ids_are_the_same_each_time(case):
    config = config_of(case, "gpt2-tied")
    assert (random_ids(config) == random_ids(config)).all()
    assert random_ids(config).max() < config.vocab_size
    assert (cotangent((2, 3)) == cotangent((2, 3))).all()


def test_a_tokenizer_that_belongs_elsewhere(case):
    config = config_of(case, "gpt2-tied")
    assert text_ids(lambda text: [1, 2, 3], config).shape == (2, 40)
    with pytest.raises(MappingError, match="beyond the embedding"):
        text_ids(lambda text: [1, 53], config)


def test_a_fused_module_is_several_taps(case):
    report = read_config(case("gpt2-tied").source)
    tap = taps(report.model, report.dialect)["blocks.1.attn.k"]
    assert tap.foreign == "transformer.h.1.attn.c_attn [24:48]"
    assert taps(report.model, report.dialect)["blocks.1.mlp.hidden"].foreign == "input of transformer.h.1.mlp.c_proj"
