"""Rotary positions far beyond the tokens that are fed: the angles of one step, for sequences of several lengths.

Scaled rotary embedding is right on a short text and wrong on a long one when its factor, its original context or its
type is misread. The frequencies themselves show it at once: cos and sin at position 1 are those of one step, and a
second position at the end tells a dynamic scaling how long the sequence is.
"""

from __future__ import annotations

import numpy as np

from mindport.config.model_config import ModelConfig

PREFIX = "rope/"
LIMIT = 2e-6  # of a cosine or sine; float32 powers of the two frameworks differ by 3e-7


def lengths(config: ModelConfig) -> tuple[int, ...]:
    """Sequence lengths on both sides of the original context and of the context, shortest first."""
    if config.rope is None:
        return ()
    edges = {config.rope.original_max_position_embeddings or 0, config.max_position_embeddings}
    return tuple(sorted({length for edge in edges for length in (edge // 2, edge, edge + 1, 2 * edge) if length > 1}))


def positions(length: int) -> np.ndarray:
    """(1, 2) int64: the first step, and the last position."""
    return np.array([[1, length - 1]])


def name(length: int) -> str:
    """The array of a trace: (2, D/2) cos and sin of one step."""
    return f"{PREFIX}{length}"
