"""Faults of a converter: the numbers are there, in the wrong place, order or precision.

A layer's fault is in the second one, so that the first is seen to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from mindport.config.model_config import ModelConfig
from mindport.debug.diagnosis.orders import by_halves, in_heads
from mindport.debug.faults.fault import Arrays, Fault
from mindport.weights.dtypes import NUMPY

Change = Callable[[Arrays, ModelConfig], None]
STALE = 0.03  # of a tensor's size: what some hundred steps of training change


def at(config: ModelConfig, name: str, layer: int = 1) -> str:
    """A name in the layer that has the fault."""
    return f"blocks.{min(layer, config.num_hidden_layers - 1)}.{name}"


def _first(name: str, layer: int = 1) -> Callable[[ModelConfig], str]:
    return lambda config: at(config, name, layer)


def _on(name: str, turn: Callable[[np.ndarray, ModelConfig], np.ndarray], parts: Sequence[str] = ("weight",)) -> Change:
    """Change some tensors of a cell by a function of their values; those that the model lacks are passed over."""

    def change(arrays: Arrays, config: ModelConfig) -> None:
        for full in (f"{at(config, name)}.{part}" for part in parts):
            if full in arrays:
                arrays[full] = turn(arrays[full], config)

    return change


def _moved(*cells: str) -> Change:
    """Each cell of a layer gets the tensors of the next one, the last those of the first."""

    def change(arrays: Arrays, config: ModelConfig) -> None:
        for part in ("weight", "bias"):
            names = [at(config, f"{cell}.{part}") for cell in cells]
            if names[0] in arrays:
                values = [arrays[name] for name in names]
                arrays.update(zip(names, values[1:] + values[:1], strict=True))

    return change


def _layers(order: Callable[[list[int]], Iterable[int]]) -> Change:
    """Layer i gets the tensors of the layer that stands i-th in the order."""

    def change(arrays: Arrays, config: ModelConfig) -> None:
        before = dict(arrays)
        for layer, other in enumerate(order(list(range(config.num_hidden_layers)))):
            for name in before:
                if name.startswith(f"blocks.{layer}."):
                    arrays[name] = before[name.replace(f"blocks.{layer}.", f"blocks.{other}.", 1)]

    return change


def _rows(order: Callable[[ModelConfig, int], np.ndarray]) -> Callable[[np.ndarray, ModelConfig], np.ndarray]:
    """Rows of a weight, or entries of a bias, in another order."""
    return lambda x, config: x[order(config, len(x))]


def _columns(order: Callable[[ModelConfig, int], np.ndarray]) -> Callable[[np.ndarray, ModelConfig], np.ndarray]:
    return lambda x, config: x[:, order(config, x.shape[1])]


def _exchanged(config: ModelConfig, width: int) -> np.ndarray:
    """The second and the third head have changed places."""
    heads = np.arange(width).reshape((-1, config.head_dim))
    heads[[1, 2]] = heads[[2, 1]]
    return heads.ravel()


def _with_query_heads(config: ModelConfig, width: int) -> np.ndarray:
    """Meta's rows put by halves as if k had as many heads as q."""
    meta = np.argsort(by_halves(width, config.num_key_value_heads))
    return meta[by_halves(width, config.num_attention_heads)]


def _as_meta(config: ModelConfig, width: int) -> np.ndarray:
    """Meta's order: the two numbers that turn together stand side by side."""
    return np.argsort(by_halves(width, width // config.head_dim))


def _split_by_heads(arrays: Arrays, config: ModelConfig) -> None:
    """A fused projection of three blocks, read as q, k, v of one head after the other."""
    for part in ("weight", "bias"):
        names = [at(config, f"attn.{x}.{part}") for x in "qkv"]
        if names[0] in arrays:
            fused = np.concatenate([arrays[name] for name in names])
            places = in_heads(len(fused), config.num_attention_heads, 3)
            arrays.update({name: fused[rows] for name, rows in zip(names, places, strict=True)})


def _rounded(code: str) -> Change:
    """Every weight through another precision."""

    def change(arrays: Arrays, config: ModelConfig) -> None:
        for name, array in arrays.items():
            arrays[name] = array.astype(NUMPY[code]).astype(array.dtype)

    return change


def _random(like: np.ndarray, config: ModelConfig) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal(like.shape)
    return (noise * np.std(like.astype(np.float64))).astype(like.dtype)


def _stale(x: np.ndarray, config: ModelConfig) -> np.ndarray:
    return (x.astype(np.float64) + STALE * _random(x, config).astype(np.float64)).astype(x.dtype)


def _untie(arrays: Arrays, config: ModelConfig) -> None:
    arrays["head.weight"] = _random(arrays["embed.weight"], config)


def _tie(arrays: Arrays, config: ModelConfig) -> None:
    arrays["head.weight"] = arrays["embed.weight"].copy()


def _other_layer(arrays: Arrays, config: ModelConfig) -> None:
    arrays[at(config, "mlp.down.weight")] = arrays[at(config, "mlp.down.weight", layer=2)]


def _shifted(table: str) -> Change:
    def change(arrays: Arrays, config: ModelConfig) -> None:
        arrays[table] = np.roll(arrays[table], 1, axis=0)

    return change


def _padding_first(arrays: Arrays, config: ModelConfig) -> None:
    arrays["embed.weight"] = np.roll(arrays["embed.weight"], config.vocab_rows - config.vocab_size, axis=0)


def _loses(part: str) -> Change:
    return _on(part, lambda x, config: np.zeros_like(x), ("bias",))


def _is_square(config: ModelConfig) -> bool:
    return config.num_attention_heads * config.head_dim == config.hidden_size


def _is_fused(config: ModelConfig) -> bool:
    return config.num_attention_heads == config.num_key_value_heads


def _k_can_be_permuted(config: ModelConfig) -> bool:
    q, k = config.num_attention_heads, config.num_key_value_heads
    return config.position == "rope" and k < q and k * config.head_dim % (2 * q) == 0


def _is_wide(config: ModelConfig) -> bool:
    return config.dtype in (None, "float32")


def _is_deep(config: ModelConfig) -> bool:
    return config.num_hidden_layers > 2  # the fault is in layer 1, and takes something of layer 2


BOTH = ("weight", "bias")
FAULTS = (
    Fault("swap", "k and v of a layer have changed places", _first("attn.k"), ("tensors_swapped",),
          weights=_moved("attn.k", "attn.v")),
    Fault("swap_mlp", "gate and up of a layer have changed places", _first("mlp.gate"), ("tensors_swapped",),
          weights=_moved("mlp.gate", "mlp.up"), applies=lambda c: c.gated_mlp),
    Fault("qkv_order", "the parts of a fused projection are taken for k, v, q", _first("attn.q"), ("tensors_swapped",),
          weights=_moved("attn.q", "attn.k", "attn.v"), applies=_is_fused),
    Fault("qkv_split", "a fused projection of three blocks is split head by head", _first("attn.q"), ("fused_split",),
          weights=_split_by_heads, applies=_is_fused),
    Fault("transpose", "the square output projection of a layer is transposed", _first("attn.o"), ("transposed",),
          weights=_on("attn.o", lambda x, c: x.T), applies=_is_square),
    Fault("k_permuted", "Meta's k is put by halves with the number of q's heads", _first("attn.k"), ("k_permuted",),
          weights=_on("attn.k", _rows(_with_query_heads), BOTH), applies=_k_can_be_permuted),
    Fault("meta_layout", "q is left in Meta's order, pairs side by side", _first("attn.q"), ("pairs_side_by_side",),
          weights=_on("attn.q", _rows(_as_meta), BOTH),
          applies=lambda c: c.position == "rope" and c.rotary_dim is None),
    Fault("heads_swapped", "two heads of q have changed places", _first("attn.q"), ("rows_moved",),
          weights=_on("attn.q", _rows(_exchanged), BOTH)),
    Fault("head_columns", "the output projection takes two heads in each other's place", _first("attn.o"),
          ("columns_moved",), weights=_on("attn.o", _columns(_exchanged))),
    Fault("shards", "the halves of up, split for two ranks, are put together in the wrong order", _first("mlp.up"),
          ("rows_moved",), weights=_on("mlp.up", lambda x, c: np.roll(x, len(x) // 2, axis=0), BOTH)),
    Fault("norm_swap", "the two norms of a layer have changed places", _first("norm1"), ("other_weight",),
          weights=_moved("norm1", "norm2")),
    Fault("other_layer", "down of a layer is the next layer's", _first("mlp.down"), ("other_weight",),
          weights=_other_layer, applies=_is_deep),
    Fault("layer_swap", "two layers have changed places", _first("norm1"), ("layers_moved",),
          weights=_layers(lambda order: [order[0], order[2], order[1], *order[3:]]), applies=_is_deep),
    Fault("layer_order", "the layers stand from last to first", "blocks.0.norm1", ("layers_moved",),
          weights=_layers(reversed)),
    Fault("drop_bias", "the bias of q is lost", _first("attn.q"), ("bias_dropped",), weights=_loses("attn.q"),
          applies=lambda c: c.qkv_bias),
    Fault("drop_norm_bias", "the bias of a layer norm is lost", _first("norm2"), ("bias_dropped",),
          weights=_loses("norm2"), applies=lambda c: c.norm == "layer"),
    Fault("random", "down of a layer was not loaded: it is as it was initialised", _first("mlp.down"),
          ("random_weight",), weights=_on("mlp.down", _random)),
    Fault("zeros", "the output projection of a layer was not loaded: it is zero", _first("attn.o"), ("zero_weight",),
          weights=_on("attn.o", lambda x, c: np.zeros_like(x))),
    Fault("stale", "v of a layer is of an earlier checkpoint", _first("attn.v"), ("stale_weight",),
          weights=_on("attn.v", _stale)),
    Fault("head_random", "the head is not tied to the embedding, and random", "logits", ("random_weight",),
          weights=_untie, config=lambda c: {"tie_word_embeddings": False},
          applies=lambda c: c.tie_word_embeddings),
    Fault("head_tied", "the head is the embedding, though the model has one of its own", "logits", ("head_tied",),
          weights=_tie, applies=lambda c: not c.tie_word_embeddings),
    Fault("vocab_shift", "the rows of the embedding are shifted by one token", "embed", ("vocabulary_shifted",),
          weights=_shifted("embed.weight")),
    Fault("padding_first", "the padding of the vocabulary stands before the tokens", "embed", ("vocabulary_shifted",),
          weights=_padding_first, applies=lambda c: c.padded_vocab is not None),
    Fault("position_rows", "the rows of the position table are shifted by one", "position", ("positions_shifted",),
          weights=_shifted("position.weight"), applies=lambda c: c.position == "learned"),
    Fault("float16", "the weights went through float16", "embed", ("narrowed",), weights=_rounded("F16"),
          applies=_is_wide),
    Fault("bfloat16", "the weights went through bfloat16", "embed", ("narrowed",), weights=_rounded("BF16"),
          applies=_is_wide),
)  # fmt: skip
