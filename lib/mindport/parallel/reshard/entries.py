"""The arrays of a checkpoint: axis and stage of each, from the hub's rows and the layouts of the target's table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mindport.config import ModelConfig, schema
from mindport.config.targets import TARGETS
from mindport.errors import MappingError
from mindport.parallel.reshard.places import Entry, Home
from mindport.weights.layouts import Interleave, Same, Shape, Transpose
from mindport.weights.plan import EMBED, Step, table
from mindport.weights.writers import Specs

WHOLE_VOCABULARY = ("mindformers-llama", "mindformers-llama-concat", "mindformers-gpt2")  # `vocab_emb_dp: True`


def is_whole(target: str, vocabulary: str | None) -> bool:
    """Whether tables of tokens stay whole under tensor parallelism: as asked, or by the network's default."""
    return target in WHOLE_VOCABULARY if vocabulary is None else vocabulary == "whole"


def weight_entries(target: str, config: ModelConfig) -> dict[str, Entry]:
    """The model's tensors under a target's names; their precision is not known yet.

    A fused tensor is in the order of the key/value heads, or row by row: equal shares of it are the fused tensors of
    equal shares.
    """
    rows = dict(schema.parameters(config))
    steps = table(TARGETS[target].dialect, config).steps
    return {step.foreign: _entry(step, rows, config) for step in steps}


def with_dtypes(weights: Mapping[str, Entry], dtypes: Mapping[str, str]) -> dict[str, Entry]:
    """The entries with the precisions of the files."""
    return {name: replace(entry, dtype=dtypes[name]) for name, entry in weights.items()}


def state_entries(weights: Mapping[str, Entry], specs: Specs) -> dict[str, Entry]:
    """The other arrays: `adam.m.norm.weight` (ours), `adam_m.…` or `moment1.…` (MindSpore's) lie as the weight does."""
    return {name: _state(name, dtype, shape, weights) for name, (dtype, shape) in specs.items()}


def weight_of(name: str, weights: Iterable[str]) -> str | None:
    """The weight that an array is kept of: what its name ends in, after a word or two with dots."""
    words = name.split(".")
    endings = (".".join(words[first:]) for first in range(1, len(words)))
    return next((ending for ending in endings if ending in weights), None)


def _state(name: str, dtype: str, shape: Shape, weights: Mapping[str, Entry]) -> Entry:
    weight = weight_of(name, weights)
    if weight is not None and weights[weight].shape == shape:
        return replace(weights[weight], name=name, dtype=dtype, kind="mean")
    return Entry(name, dtype, shape, None, "all", "other")


def _entry(step: Step, rows: Mapping[str, schema.Param], config: ModelConfig) -> Entry:
    param, shape, axis = rows[step.hub[0]], step.foreign_shape, rows[step.hub[0]].tp
    if axis is not None and isinstance(step.layout, Transpose):
        axis = len(shape) - 1 - axis
    elif not isinstance(step.layout, (Same, Interleave)) and step.layout.name != "grouped_qkv":
        raise MappingError("equal shares of this tensor are not those of its parts", where=step.foreign,
                           got=step.layout.name, do="convert the weights to another target")  # fmt: skip
    vocabulary = axis is not None and param.shape.split()[param.tp or 0] == "v"
    return Entry(step.foreign, "", shape, axis, _home(step.hub[0], config), vocabulary=vocabulary)


def _home(hub: str, config: ModelConfig) -> Home:
    first, *rest = hub.split(".")
    if first == "blocks":
        return int(rest[0])
    if hub == EMBED and config.tie_word_embeddings:
        return "ends"  # the last stage's head
    return "first" if first in ("embed", "position") else "last"
