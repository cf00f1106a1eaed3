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


def _fault(name: str, what: str, first: str | Callable[[ModelConfig], str], cause: str, change: Change,
           applies: Callable[[ModelConfig], bool] = lambda config: True,
           seen: str = "text is nonsense") -> Fault:  # fmt: skip
    where = (lambda config: first) if isinstance(first, str) else first
    return Fault(name=name, what=what, first=where, causes=(cause,), applies=applies, seen=seen,
                 config=lambda config: dataclasses.replace(config, **change(config)))  # fmt: skip


FAULTS = (
    _fault("theta", f"rope_theta is {WRONG_BASE:g} times too large", CONTEXT, "rope_theta", _theta,
           lambda c: c.rope is not None, "short texts are right"),
    _fault("rope_scaling", "the scaling of the rotary positions is read and not applied", CONTEXT, "rope_scaling",
           _rope(rope_type="default"), lambda c: c.rope is not None and c.rope.rope_type != "default",
           "fine when short, wrong when long"),
    _fault("rotary_part", "whole heads are rotated, not their first part", CONTEXT, "rotary_part",
           lambda c: {"rotary_dim": None}, lambda c: c.rotated < c.head_dim),
    _fault("heads_count", "twice as many heads of half the width", CONTEXT, "head_count", _twice_the_heads,
           lambda c: c.head_dim % 4 == 0 and not c.qk_norm and c.rotary_dim is None),
    _fault("scale_missing", "the scores are not divided by √head_dim", CONTEXT, "score_scale",
           lambda c: {"scale_attn_weights": False}),
    _fault("inverse_layer", "the scores are not divided by layer + 1", "blocks.1.attn.context", "inverse_layer",
           lambda c: {"scale_attn_by_inverse_layer_idx": False}, lambda c: c.scale_attn_by_inverse_layer_idx,
           "layer 0 is exact, later ones less and less"),
    _fault("window_missing", "the window of attention is ignored", _first_window, "window", lambda c: {"window": None},
           lambda c: c.window is not None, "fine when short, wrong when long"),
    _fault("window_wider", "the window is one key wider", _first_window, "window", _longer_window,
           lambda c: c.window is not None, "text is the same for some hundred tokens"),
    _fault("qk_norm_missing", "the norms of q and k are left out", "blocks.0.attn.q_norm", "never_run",
           lambda c: {"qk_norm": False}, lambda c: c.qk_norm),
    _fault("gelu", "the other form of GELU", "blocks.0.mlp.hidden", "activation", _gelu,
           lambda c: c.hidden_act in ("gelu", "gelu_tanh"),
           "off by 2e-4 where it is made: a limit of 1e-3 lets it pass"),
    _fault("activation", "GELU in the place of SiLU", "blocks.0.mlp.hidden", "activation",
           lambda c: {"hidden_act": "gelu"}, lambda c: c.hidden_act == "silu", "text is a little worse"),
    _fault("eps", f"the norms' epsilon is {WRONG_EPS:g} times too large", "blocks.0.norm1", "norm_eps",
           lambda c: {"norm_eps": c.norm_eps * WRONG_EPS}, seen="shows where activations are small"),
    _fault("norm_offset", "norms multiply by weight, not by 1 + weight", "blocks.0.norm1", "norm_offset",
           lambda c: {"norm_offset": 0}, lambda c: c.norm_offset == 1),
    _fault("parallel", "attention and MLP side by side, not one after the other, or the reverse", "blocks.0",
           "residual", lambda c: {"parallel_residual": not c.parallel_residual}),
    _fault("embedding_scale", "the embedding is not multiplied by its factor", "embed", "embedding_scale",
           lambda c: {"embedding_scale": 1.0}, lambda c: c.embedding_scale != 1.0),
)  # fmt: skip
