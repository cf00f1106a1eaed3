"""The hub: every parameter of our GPT, once.

Letters of the shapes: v vocab_rows, d hidden_size, t max_position_embeddings, f intermediate_size,
h head_dim, q num_attention_heads · head_dim, k num_key_value_heads · head_dim. Weights are [out, in].
The MindSpore model's parameters carry exactly these names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mindport.config.model_config import ModelConfig
from mindport.tables import Table

LAYER = "{}"  # stands for the layer's index in a name


@dataclass(frozen=True, slots=True)
class Param:
    """One row of the hub.

    Attributes:
        name: with `{}` for the layer's index.
        shape: letters of `ModelConfig.dims`.
        tp: the axis that tensor parallelism splits, None when every rank holds it whole.
        when: whether a configuration has it.
    """

    name: str
    shape: str
    tp: int | None = None
    when: Callable[[ModelConfig], bool] = lambda c: True


def _layer_norm(c: ModelConfig) -> bool:
    return c.norm == "layer"


PARAMS = (
    #     name                         shape  tp    exists if
    Param("embed.weight",              "v d", 0),
    Param("position.weight",           "t d", None, lambda c: c.position == "learned"),
    Param("blocks.{}.norm1.weight",    "d"),
    Param("blocks.{}.norm1.bias",      "d",   None, _layer_norm),
    Param("blocks.{}.attn.q.weight",   "q d", 0),
    Param("blocks.{}.attn.q.bias",     "q",   0,    lambda c: c.qkv_bias),
    Param("blocks.{}.attn.k.weight",   "k d", 0),
    Param("blocks.{}.attn.k.bias",     "k",   0,    lambda c: c.qkv_bias),
    Param("blocks.{}.attn.v.weight",   "k d", 0),
    Param("blocks.{}.attn.v.bias",     "k",   0,    lambda c: c.qkv_bias),
    Param("blocks.{}.attn.q_norm.weight", "h", None, lambda c: c.qk_norm),
    Param("blocks.{}.attn.k_norm.weight", "h", None, lambda c: c.qk_norm),
    Param("blocks.{}.attn.o.weight",   "d q", 1),
    Param("blocks.{}.attn.o.bias",     "d",   None, lambda c: c.attention_out_bias),
    Param("blocks.{}.norm2.weight",    "d"),
    Param("blocks.{}.norm2.bias",      "d",   None, _layer_norm),
    Param("blocks.{}.mlp.gate.weight", "f d", 0,    lambda c: c.gated_mlp),
    Param("blocks.{}.mlp.gate.bias",   "f",   0,    lambda c: c.gated_mlp and c.mlp_bias),
    Param("blocks.{}.mlp.up.weight",   "f d", 0),
    Param("blocks.{}.mlp.up.bias",     "f",   0,    lambda c: c.mlp_bias),
    Param("blocks.{}.mlp.down.weight", "d f", 1),
    Param("blocks.{}.mlp.down.bias",   "d",   None, lambda c: c.mlp_bias),
    Param("norm.weight",               "d"),
    Param("norm.bias",                 "d",   None, _layer_norm),
    Param("head.weight",               "v d", 0,    lambda c: not c.tie_word_embeddings),
)  # fmt: skip


def expand(name: str, config: ModelConfig) -> list[str]:
    """The names behind a pattern: one for each layer, or the name itself."""
    return [name.format(i) for i in range(config.num_hidden_layers)] if LAYER in name else [name]


def shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name → shape of every parameter of this configuration, in the hub's order, layer by layer."""
    dims = config.dims
    return {name: tuple(dims[letter] for letter in param.shape.split()) for name, param in parameters(config)}


def parameters(config: ModelConfig) -> Iterator[tuple[str, Param]]:
    """Every (name, row) of this configuration: embeddings, then layer by layer, then the head."""
    rows = [param for param in PARAMS if param.when(config)]
    layered = [i for i, param in enumerate(rows) if LAYER in param.name]
    first, last = layered[0], layered[-1] + 1
    yield from ((param.name, param) for param in rows[:first])
    for layer in range(config.num_hidden_layers):
        yield from ((param.name.format(layer), param) for param in rows[first:last])
    yield from ((param.name, param) for param in rows[last:])


def count(config: ModelConfig) -> int:
    """How many numbers the model holds; a tied head counts once."""
    dims, total = config.dims, 0
    for param in PARAMS:
        if param.when(config):
            size = math.prod(dims[letter] for letter in param.shape.split())
            total += size * (config.num_hidden_layers if LAYER in param.name else 1)
    return total


def schema_table(config: ModelConfig) -> Table:
    """Every row of the hub, its shape in letters and in numbers, and the axis that tensor parallelism splits."""
    dims = config.dims
    rows = []
    for param in PARAMS:
        here = tuple(dims[letter] for letter in param.shape.split()) if param.when(config) else None
        rows.append((param.name, param.shape, here, "whole" if param.tp is None else f"axis {param.tp}"))
    return Table("The schema, and its shapes for this model", ("parameter", "shape", "here", "tensor parallel"), rows)


def figures(config: ModelConfig) -> dict[str, int]:
    """Sizes that follow: parameters, bytes of weights in two precisions, KV cache bytes per token (16 bit)."""
    parameters = count(config)
    cache = 2 * config.num_hidden_layers * config.dims["k"]
    return {
        "parameters": parameters,
        "embedding parameters": config.vocab_rows * config.hidden_size,
        "bytes in float32": 4 * parameters,
        "bytes in float16 / bfloat16": 2 * parameters,
        "KV cache bytes per token (16 bit)": 2 * cache,
        "query heads per key/value head": config.num_attention_heads // config.num_key_value_heads,
    }
