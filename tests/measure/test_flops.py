"""Operations counted by hand."""

from __future__ import annotations

from mindport.measure.flops import attention_flops, layers_flops, step_flops
from mindport.tuning.shapes import gpt2, llama


def test_attention_counts_the_pairs_that_are_seen():
    assert attention_flops(heads=1, head_dim=8, tokens=1) == 2 * 8 + 2 * 8  # one score, one weighted value
    assert attention_flops(heads=2, head_dim=8, tokens=3, batch=5) == 5 * 2 * 6 * 32  # 1 + 2 + 3 pairs


def test_a_layer_is_its_matrices_and_its_attention():
    config = gpt2(32, 4, layers=2, vocab_size=100, context=16)
    matrices = 2 * (4 * 32 * 32 + 2 * 32 * 128)
    assert layers_flops(config, 3, 16) == 2 * matrices * 3 * 16 + 2 * attention_flops(4, 8, 16, 3)


def test_a_step_is_three_times_forward_with_the_head_and_without_the_look_ups():
    config = llama(32, 4, 2, 48, layers=1, vocab_size=100)
    matrices = 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32 + 100 * 32
    assert step_flops(config, 1, 8) == 6 * matrices * 8 + 3 * attention_flops(4, 8, 8)
