"""Faults of a reader of config.json: a value is overlooked, made up, or taken for another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from mindport.config.model_config import ModelConfig
from mindport.debug.faults.fault import Fault

WRONG_BASE, WRONG_EPS = 4.0, 10.0  # what rope_theta and norm_eps are multiplied with
CONTEXT = "blocks.0.attn.context"
Change = Callable[[ModelConfig], dict[str, Any]]


def _rope(**changes: Any) -> Change:
    def change(config: ModelConfig) -> dict[str, Any]:
        assert config.rope is not None  # `applies` has seen to it
        return {"rope": dataclasses.replace(config.rope, **changes)}

    return change


def _theta(config: ModelConfig) -> dict[str, Any]:
    assert config.rope is not None
    return _rope(rope_theta=config.rope.rope_theta * WRONG_BASE)(config)


def _gelu(config: ModelConfig) -> dict[str, Any]:
    return {"hidden_act": "gelu" if config.hidden_act == "gelu_tanh" else "gelu_tanh"}


def _twice_the_heads(config: ModelConfig) -> dict[str, Any]:
    """Of half the width, so that every shape is as before."""
    q, k = config.num_attention_heads, config.num_key_value_heads
    return {"num_attention_heads": 2 * q, "num_key_value_heads": 2 * k, "head_dim": config.head_dim // 2}


def _longer_window(config: ModelConfig) -> dict[str, Any]:
    assert config.window is not None
    return {"window": tuple(keys and keys + 1 for keys in config.window)}


def _first_window(config: ModelConfig) -> str:
    layers = [layer for layer, keys in enumerate(config.window or ()) if keys]
    return f"blocks.{layers[0]}.attn.context"


FAULTS = (
    Fault("theta", f"rope_theta is {WRONG_BASE:g} times too large", CONTEXT, ("rope_theta",), config=_theta,
          applies=lambda c: c.rope is not None),
    Fault("rope_scaling", "the scaling of the rotary positions is read and not applied", CONTEXT, ("rope_scaling",),
          config=_rope(rope_type="default"), applies=lambda c: c.rope is not None and c.rope.rope_type != "default"),
    Fault("rotary_part", "whole heads are rotated, not their first part", CONTEXT, ("rotary_part",),
          config=lambda c: {"rotary_dim": None}, applies=lambda c: c.rotated < c.head_dim),
    Fault("heads_count", "twice as many heads of half the width", CONTEXT, ("head_count",), config=_twice_the_heads,
          applies=lambda c: c.head_dim % 4 == 0 and not c.qk_norm and c.rotary_dim is None),
    Fault("scale_missing", "the scores are not divided by √head_dim", CONTEXT, ("score_scale",),
          config=lambda c: {"scale_attn_weights": False}),
    Fault("inverse_layer", "the scores are not divided by layer + 1", "blocks.1.attn.context", ("inverse_layer",),
          config=lambda c: {"scale_attn_by_inverse_layer_idx": False},
          applies=lambda c: c.scale_attn_by_inverse_layer_idx),
    Fault("window_missing", "the window of attention is ignored", _first_window, ("window",),
          config=lambda c: {"window": None}, applies=lambda c: c.window is not None),
    Fault("window_wider", "the window is one key wider", _first_window, ("window",), config=_longer_window,
          applies=lambda c: c.window is not None),
    Fault("qk_norm_missing", "the norms of q and k are left out", "blocks.0.attn.q_norm", ("never_run",),
          config=lambda c: {"qk_norm": False}, applies=lambda c: c.qk_norm),
    Fault("gelu", "the other form of GELU", "blocks.0.mlp.hidden", ("activation",), config=_gelu,
          applies=lambda c: c.hidden_act in ("gelu", "gelu_tanh")),
    Fault("activation", "GELU in the place of SiLU", "blocks.0.mlp.hidden", ("activation",),
          config=lambda c: {"hidden_act": "gelu"}, applies=lambda c: c.hidden_act == "silu"),
    Fault("eps", f"the norms' epsilon is {WRONG_EPS:g} times too large", "blocks.0.norm1", ("norm_eps",),
          config=lambda c: {"norm_eps": c.norm_eps * WRONG_EPS}),
    Fault("norm_offset", "norms multiply by weight, not by 1 + weight", "blocks.0.norm1", ("norm_offset",),
          config=lambda c: {"norm_offset": 0}, applies=lambda c: c.norm_offset == 1),
    Fault("parallel", "attention and MLP side by side, not one after the other, or the reverse", "blocks.0",
          ("residual",), config=lambda c: {"parallel_residual": not c.parallel_residual}),
    Fault("embedding_scale", "the embedding is not multiplied by its factor", "embed", ("embedding_scale",),
          config=lambda c: {"embedding_scale": 1.0}, applies=lambda c: c.embedding_scale != 1.0),
)  # fmt: skip
