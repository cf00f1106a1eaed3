"""What both models are fed: two texts in the model's own tokens, or seeded random ids when it has no tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mindport.config.model_config import ModelConfig
from mindport.errors import MappingError

SEED = 20251
TOKENS, NEW = 44, 24  # length of a row, and how many of its tokens the greedy continuation replaces
LONGEST = 192  # a stretched context is looked at beyond its original length when that costs little
TOKENIZERS = ("tokenizer.json", "vocab.json", "tokenizer.model")
TEXTS = (
    "The harbour was still dark when the first boat came in. Two men stood on the quay, counting crates by the light "
    "of a lamp, and neither of them said a word until the rope had been made fast and the engine had gone quiet. "
    "Then the older one laughed, and asked what the sea had been like beyond the point.",
    "Water boils at 100 degrees Celsius at sea level, but only 93 degrees on a mountain of 2,000 metres: the air is "
    "thinner there, and bubbles need less heat to push against it. That is why an egg takes longer to cook in the "
    "hills, and why recipes that were written at the coast sometimes fail.",
)


def length(config: ModelConfig) -> int:
    """How many tokens a row has: 44, fewer in a shorter context, more to pass the original context of scaled RoPE."""
    original = config.rope.original_max_position_embeddings if config.rope else None
    beyond = original + original // 4 if original and original <= LONGEST else 0
    wanted = max(TOKENS, beyond)
    return wanted if is_dynamic(config) and beyond else min(wanted, config.max_position_embeddings)


def is_dynamic(config: ModelConfig) -> bool:
    """Whether the rotary frequencies depend on how many tokens there are."""
    return config.rope is not None and config.rope.by_length


def greedy_lengths(config: ModelConfig, tokens: int) -> tuple[int, int]:
    """(prompt, new): together a whole row, but within the context."""
    total = min(tokens, config.max_position_embeddings)
    new = min(NEW, total - max(1, total // 3))  # a prompt has a token at least
    return total - new, new


def has_tokenizer(directory: Path) -> bool:
    """Whether the directory brings a tokenizer."""
    return any((directory / name).is_file() for name in TOKENIZERS)


def text_ids(encode: Callable[[str], list[int]], config: ModelConfig) -> np.ndarray:
    """(2, T) int64: each text in tokens, repeated until it is long enough.

    Raises:
        MappingError: the tokenizer knows tokens that the embedding has no row for.
    """
    rows = [np.resize(encode(text), length(config)) for text in TEXTS]
    return within(np.stack(rows).astype(np.int64), config)


def within(ids: np.ndarray, config: ModelConfig) -> np.ndarray:
    """The same ids.

    Raises:
        MappingError: the embedding has no row for one of them.
    """
    if (highest := int(ids.max())) >= config.vocab_size:
        raise MappingError(
            "the tokenizer gives ids beyond the embedding",
            where="tokenizer, vocab_size",
            got=highest,
            expected=f"below {config.vocab_size}",
            do="take the tokenizer that belongs to these weights",
        )
    return ids


def random_ids(config: ModelConfig, seed: int = SEED) -> np.ndarray:
    """(2, T) int64, seeded."""
    return np.random.default_rng(seed).integers(0, config.vocab_size, (2, length(config)))


def cotangent(shape: tuple[int, ...], seed: int = SEED) -> np.ndarray:
    """float32: the gradient that is sent back into a layer's output, seeded, of unit norm at each position."""
    noise = np.random.default_rng(seed + 1).standard_normal(shape)
    return (noise / np.linalg.norm(noise, axis=-1, keepdims=True)).astype(np.float32)
