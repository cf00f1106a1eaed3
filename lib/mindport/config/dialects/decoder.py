"""The tables that LLaMA and the families after it have in common; each takes what fits and adds what sets it apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mindport.config.dialect import Derived, Field, Raw, Refusal, Row, pair
from mindport.config.dialects.common import DTYPE, INIT, REFUSED, TOKENS
from mindport.config.readers import boolean, layer_count, positive_float, positive_int, probability, whole_number
from mindport.config.rope import read_rope

B, L = "blocks.{}.", "model.layers.{}."
FULL, SLIDING = "full_attention", "sliding_attention"

ALL_HEADS = Derived("num_attention_heads", lambda raw: raw["num_attention_heads"])
SPLIT_WIDTH = Derived("hidden_size / num_attention_heads", lambda raw: raw["hidden_size"] // raw["num_attention_heads"])

SIZES = (
    Field("vocab_size", "vocab_size", positive_int),
    Field("hidden_size", "hidden_size", positive_int),
    Field("intermediate_size", "intermediate_size", positive_int),
    Field("num_hidden_layers", "num_hidden_layers", layer_count),
    Field("num_attention_heads", "num_attention_heads", positive_int),
)
KV_HEADS = Field("num_key_value_heads", "num_key_value_heads", positive_int, ALL_HEADS)
HEAD_DIM = Field("head_dim", "head_dim", positive_int, SPLIT_WIDTH)
ROPE = Field("rope_parameters", "rope", read_rope, {"rope_theta": 10_000.0})  # the older spellings are joined to it
REST = (Field("attention_dropout", "attn_pdrop", probability, 0.0), INIT, *TOKENS, DTYPE)
CONSTANTS = {"norm": "rms", "position": "rope", "gated_mlp": True}

NO_WINDOW = Refusal("sliding_window", (None,), "windowed attention belongs to another family")
NO_PARTIAL = Refusal("partial_rotary_factor", (None, 1, 1.0), "partly rotated heads belong to another family")
NO_LAYER_TYPES = Refusal("layer_types", (None,), "layers of several kinds belong to another family")
DENSE = (*REFUSED, NO_PARTIAL)

MODULES = (
    (B + "attn", L + "self_attn"),
    (B + "mlp", L + "mlp"),
    ("blocks.{}", "model.layers.{}"),
)
DROPPED = (L + "self_attn.rotary_emb.inv_freq",)
QKVO = tuple(row for x in "qkvo" for row in pair(f"{B}attn.{x}", f"{L}self_attn.{x}_proj"))
GATED_MLP = tuple(row for x in ("gate", "up", "down") for row in pair(f"{B}mlp.{x}", f"{L}mlp.{x}_proj"))


def epsilon(default: float) -> Field:
    """The RMS norm's epsilon."""
    return Field("rms_norm_eps", "norm_eps", positive_float, default)


def rows(attention: Iterable[Row] = QKVO, mlp: Iterable[Row] = GATED_MLP) -> tuple[Row, ...]:
    """The weight table around a family's attention and MLP."""
    return (
        Row("embed.weight", "model.embed_tokens.weight"),
        Row(B + "norm1.weight", L + "input_layernorm.weight"),
        *attention,
        Row(B + "norm2.weight", L + "post_attention_layernorm.weight"),
        *mlp,
        Row("norm.weight", "model.norm.weight"),
        Row("head.weight", "lm_head.weight"),
    )


def every_layer(default: int | None) -> Derived:
    """One window for all layers; `default` is the configuration class's when the key is missing, null is none."""

    def compute(raw: Raw) -> tuple[int, ...] | None:
        size = _window(raw, default)
        return None if size is None else (size,) * layer_count(raw["num_hidden_layers"])

    return Derived("sliding_window in every layer, null for none", compute, {"sliding_window": positive_int})


def by_layer(raw: Raw) -> tuple[int | None, ...] | None:
    """The window of each layer as Qwen2Config and Qwen3Config of transformers 5 have it.

    `layer_types` decides when it is there; else the layers from `max_window_layers` on have a window, those before
    see everything. Without `use_sliding_window` there is none.
    """
    layers, kinds = layer_count(raw["num_hidden_layers"]), raw.get("layer_types")
    size = _window(raw, 4096) if _read(raw, "use_sliding_window", boolean, False) else None
    if kinds is None:
        first = _read(raw, "max_window_layers", whole_number, 28)
        kinds = [SLIDING if size is not None and i >= first else FULL for i in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or not set(kinds) <= {FULL, SLIDING}:
        raise ValueError(f"layer_types as a list of {layers}, each {FULL} or {SLIDING}")
    if SLIDING in kinds and size is None:
        raise ValueError(f"use_sliding_window and sliding_window with a layer of {SLIDING}")
    return tuple(size if kind == SLIDING else None for kind in kinds) if SLIDING in kinds else None


BY_LAYER = Derived(
    "sliding_window in the layers that layer_types names, else from max_window_layers on",
    by_layer,
    {
        "use_sliding_window": None,
        "sliding_window": positive_int,
        "max_window_layers": whole_number,
        "layer_types": None,
    },
)

WRITTEN_WINDOWS = {
    "use_sliding_window": lambda c: c.window is not None,
    "sliding_window": lambda c: c.window and max(size for size in c.window if size is not None),
    "layer_types": lambda c: c.window and [FULL if size is None else SLIDING for size in c.window],
}


def _window(raw: Raw, default: int | None) -> int | None:
    """A missing key and null are not the same here."""
    return _read(raw, "sliding_window", lambda size: None if size is None else positive_int(size), default)


def _read(raw: Raw, key: str, read: Callable[[Any], Any], default: Any) -> Any:
    try:
        return read(raw.get(key, default))
    except ValueError as expected:
        raise ValueError(f"{key}: {expected}") from None
