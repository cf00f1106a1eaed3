"""Floating-point operations, by formula: what the mathematics asks for, whatever a contestant does.

A multiply-add counts two. A matrix product of P parameters takes 2 P per token forward and 4 P backward; causal
attention takes 4 D per pair of query and key and head forward (scores, then values), twice that backward. Masked
pairs, recomputation, norms, activations, the softmax and the optimizer count nothing, so that a share of the peak is
a share of useful work. (arXiv:2001.08361 counts 6 N per token in the same way, arXiv:2204.02311 adds the attention.)
"""

from __future__ import annotations

import math

from mindport.config import ModelConfig
from mindport.config.schema import shapes

FORWARD, TRAINING = 1, 3  # forward alone; with the backward pass, which is twice as much


def attention_flops(heads: int, head_dim: int, tokens: int, batch: int = 1) -> float:
    """Causal attention, forward: 4 · D · H · T (T + 1) / 2 a sequence."""
    return 4.0 * head_dim * heads * (tokens * (tokens + 1) / 2) * batch


def layers_flops(config: ModelConfig, batch: int, tokens: int) -> float:
    """All layers, forward: 2 · (matrix parameters of the layers) · tokens, and attention."""
    parameters = sum(math.prod(s) for name, s in shapes(config).items() if name.startswith("blocks.") and len(s) > 1)
    attention = attention_flops(config.num_attention_heads, config.head_dim, tokens, batch)
    return 2.0 * parameters * batch * tokens + config.num_hidden_layers * attention


def step_flops(config: ModelConfig, batch: int, tokens: int) -> float:
    """A training step: 6 · N · tokens, N the matrices of layers and head, and attention; embeddings are look-ups."""
    head = 2.0 * config.vocab_size * config.hidden_size * batch * tokens
    return TRAINING * (layers_flops(config, batch, tokens) + head)
