"""Mistakes between q, k, v and what attention makes of them: each is the right attention with one choice exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mindport.debug.diagnosis import cells
from mindport.debug.diagnosis.cells import Array
from mindport.debug.diagnosis.hypothesis import Hypothesis
from mindport.debug.diagnosis.site import Site

THETAS = (1e3, 1e4, 2e4, 1e5, 2.5e5, 5e5, 1e6, 1e7)
FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0)
CAPS = (50.0, 30.0, 20.0, 10.0, 5.0)
MASK = "open the attention kernel: which keys are hidden, and what their scores become before the softmax"
ROTARY = "print the first inverse frequencies, and cos and sin of position 1, of both sides"
HEADS = "print num_attention_heads, num_key_value_heads and head_dim, and how q is reshaped"
Choices = Callable[[Site], dict[str, dict[str, Any]]]


def _everything(queries: Array, keys: Array, window: int | None) -> Array:
    return np.zeros(np.broadcast_shapes(queries.shape, keys.shape), bool)


def _reversed(queries: Array, keys: Array, window: int | None) -> Array:
    return cells.causal(keys, queries, window)


def _shifted(by: int) -> Callable[[Array, Array, int | None], Array]:
    return lambda queries, keys, window: cells.causal(queries + by, keys, window)


def _masked_after(scores: Array, hidden: Array) -> Array:
    return np.where(hidden, 0, cells.softmax(scores))


def _filled_with_zero(scores: Array, hidden: Array) -> Array:
    return cells.softmax(cells.fill(scores, hidden, 0.0))


def _over_queries(scores: Array, hidden: Array) -> Array:
    return cells.softmax(cells.fill(scores, hidden), axis=-2)


def _thetas(site: Site) -> dict[str, dict[str, Any]]:
    rope = site.attending.rope
    if rope is None:
        return {}
    near = [rope.rope_theta * factor for factor in (0.1, 0.25, 0.5, 2, 4, 10)]
    return {f"{theta:g}, not {rope.rope_theta:g}": {"rope": replace(rope, rope_theta=theta)}
            for theta in dict.fromkeys([*near, *THETAS])}  # fmt: skip


def _scalings(site: Site) -> dict[str, dict[str, Any]]:
    rope = site.attending.rope
    if rope is None or not rope.factor:
        return {}
    kinds = {f"{kind}, not {rope.rope_type}": {"rope_type": kind} for kind in ("default", "linear")}
    factors = (rope.factor / 2, rope.factor * 2, *FACTORS)
    others = {f"{rope.rope_type} by {factor:g}, not by {rope.factor:g}": {"factor": factor} for factor in factors}
    return {which: {"rope": replace(rope, **changes)} for which, changes in {**kinds, **others}.items()}


def _scales(site: Site) -> dict[str, dict[str, Any]]:
    how, width = site.attending, site.config.hidden_size
    scales = {"1": 1.0, "1/head_dim": 1 / how.head_dim, "1/√hidden_size": width**-0.5,
              "1/√(heads · head_dim)": (how.heads * how.head_dim) ** -0.5,
              "1/√(head_dim / 2)": (how.head_dim / 2) ** -0.5, "√head_dim": how.head_dim**0.5}  # fmt: skip
    return {f"{name}, not {how.scale:.4g}": {"scale": scale} for name, scale in scales.items()}


def _by_layer(site: Site) -> dict[str, dict[str, Any]]:
    how, depth = site.attending, (site.layer or 0) + 1
    return {"not": {"scale": how.scale * depth}, "": {"scale": how.scale / depth}}


def _windows(site: Site) -> dict[str, dict[str, Any]]:
    keys = site.attending.window
    if keys is None:
        return {f"{other} keys, not all": {"window": other} for other in site.config.window or () if other}
    others = {f"{other} keys, not {keys}": {"window": other} for other in (keys + 1, keys - 1, keys // 2, 2 * keys)}
    return {f"all keys, not {keys}": {"window": None}, **others}


def _widths(site: Site) -> dict[str, dict[str, Any]]:
    """The same columns as more or fewer heads, every width that divides both q and k."""
    how, found = site.attending, {}
    if how.norms:
        return {}
    for width in range(2, how.kv_heads * how.head_dim + 1, 2):
        if (how.kv_heads * how.head_dim) % width == 0 and (how.heads * how.head_dim) % width == 0:
            heads, kv_heads = how.heads * how.head_dim // width, how.kv_heads * how.head_dim // width
            scale = how.scale * (how.head_dim / width) ** 0.5 if site.config.scale_attn_weights else how.scale
            rotated = width if how.rotated == how.head_dim else min(width, how.rotated)
            found[f"{heads} of {width}, not {how.heads} of {how.head_dim}"] = {
                "heads": heads, "kv_heads": kv_heads, "head_dim": width, "rotated": rotated, "scale": scale,
            }  # fmt: skip
    return found


def _parts(site: Site) -> dict[str, dict[str, Any]]:
    how = site.attending
    widths = range(how.head_dim - how.head_dim % 2, 0, -2) if how.rope and how.rope.rope_type != "longrope" else ()
    return {f"{width} dimensions, not {how.rotated}": {"rotated": width} for width in widths}


def _always(**changes: Any) -> Choices:
    return lambda site: {"": changes}


def _with_rope(**changes: Any) -> Choices:
    return lambda site: {"": changes} if site.attending.rope else {}


def _with_norms(**changes: Any) -> Choices:
    return lambda site: {"": changes} if site.attending.norms else {}


def _attention(name: str, says: str, next_action: str, choices: Choices) -> Hypothesis:
    def would_be(site: Site) -> Iterator[tuple[str, Array]]:
        for which, changes in choices(site).items():
            yield which, replace(site.attending, **changes)(*site.qkv)

    return Hypothesis(name, says, next_action, would_be)


def _ahead(site: Site) -> dict[str, dict[str, Any]]:
    steps = (1, -1, 2, -2) if site.attending.rope else ()
    return {f"{abs(by)} {'ahead of' if by > 0 else 'behind'}": {"ahead": by} for by in steps}


CONTEXT = (
    _attention("mask_missing", "there is no causal mask: every query sees every key", MASK,
               _always(sees=_everything, window=None)),
    _attention("mask_reversed", "the mask is reversed: a query sees itself and what follows", MASK,
               _always(sees=_reversed)),
    _attention("mask_zero", "hidden scores are filled with 0, which is a score like any other", MASK,
               _always(weigh=_filled_with_zero)),
    _attention("mask_shifted", "the mask is off by {}", MASK,
               lambda site: {"one key: a query sees the next token": {"sees": _shifted(1)},
                             "one key: a query does not see itself": {"sees": _shifted(-1)}}),
    _attention("mask_after", "the weights are masked after the softmax: they do not sum to 1", MASK,
               _always(weigh=_masked_after)),
    _attention("softmax_axis", "the softmax runs over the queries, not over the keys",
               "give the softmax the last axis of (B, H, T, S)", _always(weigh=_over_queries)),
    _attention("window", "a query sees {}", "compare the window of each layer with config.json: layer_types, "
               "sliding_window, max_window_layers", _windows),
    _attention("inverse_layer", "the scores are {} divided by layer + 1",
               "look at scale_attn_by_inverse_layer_idx in config.json", _by_layer),
    _attention("score_scale", "the scores are multiplied by {}", "look for a scale that is missing, or applied twice",
               _scales),
    _attention("score_cap", "the scores are capped at ± {}", "look at attn_logit_softcapping: this model has none",
               lambda site: {f"{cap:g}": {"cap": cap} for cap in CAPS}),
    _attention("kv_tiled", "the key/value heads are tiled, not repeated: query head h reads head h mod K",
               "query head h reads key/value head h // (H / K): repeat_interleave, not tile",
               _always(share=cells.tiled)),
    _attention("head_count", "the columns are taken for {} numbers", HEADS, _widths),
    _attention("heads_merged", "the heads are put together number by number: a transposition is missing",
               "turn (B, H, T, D) back to (B, T, H, D) before the reshape", _always(number_by_number=True)),
    _attention("rope_missing", "q and k are not rotated", ROTARY, _with_rope(turned="")),
    _attention("rope_pairs", "neighbours turn together, not the halves of a head",
               "Hugging Face's checkpoints turn (x[i], x[i + D/2]); Meta's layout turns (x[2i], x[2i + 1])",
               _with_rope(turn=cells.neighbours)),
    _attention("rope_backwards", "q and k turn the other way: the sine has the wrong sign", ROTARY,
               _with_rope(backwards=True)),
    _attention("rope_positions", "the keys' positions are {} the queries'",
               "count the positions of a cache: the offset belongs to the queries as well", _ahead),
    _attention("rope_on_v", "v is rotated as well", "rotate q and k only", _with_rope(turned="qkv")),
    _attention("rope_scaling", "the rotary scaling is {}",
               "look at rope_parameters (rope_scaling) in config.json: it is read, and not applied", _scalings),
    _attention("rotary_part", "a head is rotated in {}", "look at partial_rotary_factor (rotary_pct) in config.json",
               _parts),
    _attention("rope_theta", "rope_theta is {}", "look at rope_parameters in config.json: newer files have theta there",
               _thetas),
    _attention("qk_norm_after", "q and k are normalised after the rotation", "the norms come first, then the rotation",
               _with_norms(norms_last=True)),
    _attention("qk_norm_missing", "q and k are not normalised", "load q_norm and k_norm, and apply them before the "
               "rotation", _with_norms(norms=())),
)  # fmt: skip
