"""What the experiments of notebook 07 train: the user's model, cut to a size that a laptop times in seconds.

Layers are dropped and the vocabulary with them, in proportion, so that the head and the loss keep their share of the
work. Values are random: speed does not depend on them. Dropout is off, so that two ways of computing can be compared.
What the peers (torch, the line-by-line translation) do not have and what costs no time is set aside: scaled rotary
frequencies, a head of its own, scores divided by the layer's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mindport.config import ModelConfig, Rope, read_config
from mindport.errors import UsageError
from mindport.machine import cores
from mindport.tuning.shapes import Workload

VOCABULARY_STEP = 64  # the cut vocabulary is a multiple of it


@dataclass(frozen=True)
class Effort:
    """How much an experiment does at one size.

    Attributes:
        layers: that are kept.
        batch, tokens: shape of a step's input, B and T.
        rounds: turns of each contestant, a step a turn.
        warm_up: steps before them, whose losses are compared.
        lengths: shortest and longest sequence of the scaling study.
        threads: of every contestant.
        mode: of the rungs of the ladder above the graph's own; compiling each is most of the time of a small run.
        warm: whether contestants come out of a fork server, see `race.Plan`.
    """

    layers: int
    batch: int
    tokens: int
    rounds: int
    warm_up: int
    lengths: tuple[int, int]
    threads: int = field(default_factory=cores)
    mode: str = "graph"
    warm: bool = False


EFFORTS = {
    "smoke": Effort(
        1, batch=2, tokens=64, rounds=2, warm_up=2, lengths=(64, 256), threads=1, mode="pynative", warm=True
    ),
    "small": Effort(2, batch=1, tokens=256, rounds=5, warm_up=3, lengths=(128, 2048)),
    "full": Effort(4, batch=2, tokens=512, rounds=7, warm_up=3, lengths=(128, 4096)),
}
TRANSLATED = {"gpt2": "gelu_tanh", "llama": "silu"}  # what the peers compute: family and activation


def effort(size: str) -> Effort:
    """How much to do.

    Raises:
        UsageError: there is no such size.
    """
    if size not in EFFORTS:
        raise UsageError("there is no such size", got=size, expected=", ".join(EFFORTS))
    return EFFORTS[size]


def cut_model(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Workload:
    """The model of a Hugging Face directory, cut.

    Args:
        directory: where its config.json is; weights are not read.
        size: smoke, small or full.
        allow: unknown keys of config.json to let pass.

    Raises:
        UsageError: there is no such size.
        ConfigError: the configuration cannot go across.
    """
    chosen, config = effort(size), read_config(Path(directory), allow).model
    layers = min(chosen.layers, config.num_hidden_layers)
    rows = -(-config.vocab_size * layers // (config.num_hidden_layers * VOCABULARY_STEP)) * VOCABULARY_STEP
    cut = replace(config.with_layers(layers), vocab_size=min(rows, config.vocab_size),
                  embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0, tie_word_embeddings=True,
                  scale_attn_by_inverse_layer_idx=False, rope=config.rope and Rope(rope_theta=config.rope.rope_theta),
                  )  # fmt: skip
    return shaped(cut, chosen.batch, chosen.tokens)


def shaped(config: ModelConfig, batch: int, tokens: int) -> Workload:
    """A model and what it is fed; a context that is too short for it is lengthened."""
    config = replace(config, max_position_embeddings=max(tokens, config.max_position_embeddings))
    name = (f"{config.model_type}, layers × width {config.num_hidden_layers} × {config.hidden_size}, "
            f"vocabulary {config.vocab_size:,}, {batch} × {tokens} tokens")  # fmt: skip
    return Workload(name, config, batch, tokens)


def has_peers(config: ModelConfig) -> bool:
    """Whether torch's step and the translation line by line compute this model."""
    return TRANSLATED.get(config.model_type) == config.hidden_act
