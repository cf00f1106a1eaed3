"""What both frameworks train on, and how: so that no mistake of a training step can hide.

    batches    other text in each step; rows of different length, padded on the right, so that ignoring it matters
    optimizer  AdamW with betas and a decay that are nobody's defaults; norms and biases do not decay
    rate       a warm-up from 0, then half a cosine: an index that is off by one shows in the first step
    clipping   to a little less than the gradients' norm at step 0: it binds in some steps and not in others

Dropout is off on both sides: two frameworks never draw the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mindport.config.model_config import ModelConfig
from mindport.config.schema import count, shapes
from mindport.errors import UsageError
from mindport.parity.inputs import SEED

ROWS, TOKENS = 3, 24  # of a batch
IGNORED = -100  # label of a position that does not count
SNAPSHOTS = (1, 3)  # steps after which weights and optimizer state are compared
KEPT = (1, 2, 3)  # those after which they are kept: between two in a row, a step can be computed again
SHORTEST = 10  # steps of a schedule at least: a warm-up and something after it
USUAL, LARGE = 50, 10_000_000  # steps of a training that shows something; parameters of a model for which it takes long
CLIP = 0.9  # of the first norm
ENTRIES, ALTOGETHER = 65_536, 2**21  # numbers looked at: of a parameter, and about of the whole model
SPREAD = 2_654_435_761  # a prime: no size is a multiple of it, so no place comes twice


@dataclass(frozen=True)
class Recipe:
    """The numbers of a training, as `about["recipe"]` holds them.

    Attributes:
        max_norm: gradients are clipped to it.
        warmup_steps, total_steps: of the schedule.
        no_decay: hub names of the parameters that do not decay.
        lr: the rate after the warm-up.
        betas, eps, weight_decay: of AdamW.
        schedule: its shape after the warm-up.
        seed: of the lengths of the rows.
    """

    max_norm: float
    warmup_steps: int
    total_steps: int
    no_decay: tuple[str, ...]
    lr: float = 5e-4
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1
    schedule: str = "cosine"
    seed: int = SEED

    def as_dict(self) -> dict[str, Any]:
        """For a manifest."""
        return asdict(self)


def recipe_for(config: ModelConfig, steps: int, norm: float) -> Recipe:
    """The recipe of a model whose gradients have this norm at step 0."""
    total = max(steps, SHORTEST)
    no_decay = tuple(name for name, shape in shapes(config).items() if len(shape) == 1)
    return Recipe(float(f"{CLIP * norm:.3g}"), total // SHORTEST, total, no_decay)


def usual_steps(config: ModelConfig) -> int:
    """How many steps to take when nobody says: 50, or 10 of a large model, where each takes seconds."""
    return USUAL if count(config) <= LARGE else SHORTEST


def read_recipe(about: Mapping[str, Any]) -> Recipe:
    """The recipe of a trace."""
    said = about["recipe"]
    return Recipe(**{**said, "betas": tuple(said["betas"]), "no_decay": tuple(said["no_decay"])})


def batch_tokens(config: ModelConfig) -> int:
    """How many tokens the rows of a batch have, padding included.

    Raises:
        UsageError: the context has no room for a token and the one after it.
    """
    if config.max_position_embeddings < 2:
        raise UsageError("a model without context cannot be trained", got=config.max_position_embeddings,
                         expected="at least 2 positions")  # fmt: skip
    return min(TOKENS, config.max_position_embeddings)


def batches(stream: np.ndarray, config: ModelConfig, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut a long row of tokens into batches.

    The reference's embedding keeps the row of a padding token as it is, so where a model has such a token it only
    stands at the end of rows, never in the text.

    Args:
        stream: (N,) ids; repeated where they are too few.
        config: of the model.
        steps: how many batches.

    Returns:
        ids and labels, int32 (S, B, T). A label is the token that follows; −100 at the last token and in padding.
    """
    tokens, padding = batch_tokens(config), _padding(config)
    text = stream if config.pad_token_id is None else np.where(stream == padding, _beside(padding, config), stream)
    ids = np.resize(text, (steps, ROWS, tokens))
    lengths = np.random.default_rng(SEED).integers(max(2, tokens // 2), tokens, (steps, ROWS, 1), endpoint=True)
    place = np.arange(tokens)
    labels = np.where(place < lengths - 1, np.roll(ids, -1, axis=-1), IGNORED)
    return np.where(place < lengths, ids, padding).astype(np.int32), labels.astype(np.int32)


def own_labels(labels: np.ndarray) -> np.ndarray:
    """Labels (…, T) at the token that they are, not at the one before: what a model that shifts them itself takes."""
    first = np.full_like(labels[..., :1], IGNORED)
    return np.concatenate([first, labels[..., :-1]], axis=-1)


def real_tokens(labels: np.ndarray) -> np.ndarray:
    """Which positions of (…, T) are text, and not padding."""
    real = own_labels(labels) != IGNORED
    real[..., 0] = True
    return real


def entries(config: ModelConfig) -> int:
    """How many numbers of a parameter are looked at, at most."""
    return min(ENTRIES, max(1, ALTOGETHER // len(shapes(config))))


def looked_at(name: str, x: np.ndarray, most: int) -> np.ndarray:
    """A copy of the parameter's values, or of `most` of them at places that follow from its name alone."""
    if x.size <= most:
        return np.array(x)
    places = (np.arange(most) * SPREAD + zlib.crc32(name.encode())) % x.size
    return x.ravel()[np.sort(places)]


def _padding(config: ModelConfig) -> int:
    return 0 if config.pad_token_id is None else config.pad_token_id % config.vocab_rows


def _beside(token: int, config: ModelConfig) -> int:
    return (token + 1) % config.vocab_size
