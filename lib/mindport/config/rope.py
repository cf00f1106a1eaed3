"""Rotary positions in config.json: three spellings, one `Rope`.

    before 4.45   "rope_theta": 500000.0, "rope_scaling": {"type": "linear", "factor": 2.0}
    before 5      "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, …}
    since 5       "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, …}

Which keys a type needs, and what stands in for a missing one, follows `modeling_rope_utils.py` of transformers 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from mindport.config.dialect import ROPE_DEFAULTS, ROPE_KEYS, Derived
from mindport.config.model_config import ModelConfig, Rope
from mindport.config.readers import boolean, positive_float, positive_int

OBJECTS = ("rope_parameters", "rope_scaling")
PARTIAL = "partial_rotary_factor"
ECHOES = ("rope_theta", PARTIAL)

NEEDED: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
}
OPTIONAL = {"yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")}
IGNORED = {"finetuned"}  # says how the model was made, not what it computes
_READ = {"original_max_position_embeddings": positive_int, "truncate": boolean}


def join_rope(
    raw: Mapping[str, Any], keys: Mapping[str, str] = ROPE_KEYS, defaults: Mapping[str, float] = ROPE_DEFAULTS
) -> dict[str, Any] | None:
    """One dictionary out of the spellings that `raw` uses; None when it uses none.

    Args:
        raw: a parsed config.json.
        keys: those beside the object that the family's class reads → the rope parameter that each stands for.
        defaults: what the class fills in.

    Raises:
        ValueError: two spellings disagree, or one is not of its form.
    """
    joined: dict[str, Any] = {}
    for key in OBJECTS:
        if raw.get(key) is not None:
            _merge(joined, key, raw[key])
    for key, name in keys.items():
        if raw.get(key) is not None:
            _merge(joined, key, {name: raw[key]})
    filled = {**defaults, **joined}
    _agree_with_echoes(raw, keys, filled)
    if not joined:
        return None
    _fill(filled, raw)
    return filled


def rope_reader(
    types: tuple[str, ...] = tuple(NEEDED), *, partial: bool = False
) -> Callable[[Mapping[str, Any]], Rope]:
    """What reads the joined dictionary of a family.

    Args:
        types: those that the family's class computes.
        partial: whether it rotates a part of a head.

    Returns:
        A function that makes a `Rope` with every key accounted for, or raises `ValueError`: an unknown type, a missing
        or superfluous key, or a bad value.
    """

    def read(joined: Mapping[str, Any]) -> Rope:
        kind = joined.get("rope_type", "default")
        if not isinstance(kind, str) or kind not in types:
            raise ValueError(f"rope_type one of {', '.join(types)}, not {kind!r}")
        if not partial and joined.get(PARTIAL) not in (None, 1):
            raise ValueError(f"{PARTIAL} 1: partly rotated heads are not computed by this family")
        _check_keys(joined, kind)
        taken = {"rope_theta", *NEEDED[kind], *OPTIONAL.get(kind, ())}
        values = {key: _value(key, joined[key]) for key in taken if joined.get(key) is not None}
        return Rope(rope_type=kind, **values)  # type: ignore[arg-type]

    return read


read_rope = rope_reader()


def rotary_dim(default: float) -> Derived:
    """The rotated dimensions of a head, from the fraction; `default` is the fraction of the configuration class."""

    def compute(joined: Mapping[str, Any]) -> int:
        part = (joined.get("rope_parameters") or {}).get(PARTIAL, default)
        if isinstance(part, bool) or not isinstance(part, (int, float)) or not 0 < part <= 1:
            raise ValueError(f"{PARTIAL} above 0 and at most 1, not {part!r}")
        return int((joined.get("head_dim") or joined["hidden_size"] // joined["num_attention_heads"]) * part)

    return Derived(f"head_dim · {PARTIAL}, rounded down", compute)


def fraction(config: ModelConfig) -> float:
    """The fraction that gives the configuration's rotated dimensions."""
    exact = config.rotated / config.head_dim
    return exact if int(config.head_dim * exact) == config.rotated else math.nextafter(exact, 1)


def _check_keys(joined: Mapping[str, Any], kind: str) -> None:
    if missing := [key for key in NEEDED[kind] if joined.get(key) is None]:
        raise ValueError(f"{kind} rope scaling with {', '.join(missing)}")
    known = {"rope_theta", "rope_type", PARTIAL, *NEEDED[kind], *OPTIONAL.get(kind, ()), *IGNORED}
    extra = [key for key in joined if key not in known and not (kind == "default" and key in _NAMES)]
    if extra:
        raise ValueError(f"{kind} rope parameters without {', '.join(extra)}")


_NAMES = {field.name for field in fields(Rope)}


def _value(key: str, value: Any) -> Any:
    try:
        return _READ.get(key, positive_float)(value)
    except ValueError as expected:
        raise ValueError(f"{key}: {expected}, not {value!r}") from None


def _merge(joined: dict[str, Any], source: str, part: Any) -> None:
    if not isinstance(part, Mapping):
        raise ValueError(f"{source} as an object of names and numbers")
    for key, value in part.items():
        if isinstance(value, Mapping):
            raise ValueError(f"{source} for all layers alike; {key!r} sets one kind of layer apart")
        name = "rope_type" if key == "type" else key
        if joined.setdefault(name, value) != value:
            raise ValueError(f"one value of {name}: {source} says {value!r}, another place {joined[name]!r}")


def _agree_with_echoes(raw: Mapping[str, Any], keys: Mapping[str, str], filled: Mapping[str, Any]) -> None:
    """Keys that other families read, and this one's class passes over, must not say something else."""
    for key in ECHOES:
        if key not in keys and raw.get(key) is not None and raw[key] != (value := filled.get(key, 1)):
            raise ValueError(
                f"{key} {value!r} or none: the family's class computes with that and does not read the key"
            )


def _fill(joined: dict[str, Any], raw: Mapping[str, Any]) -> None:
    """What the reference fills in for keys that are absent."""
    context, kind = raw.get("max_position_embeddings"), joined.setdefault("rope_type", "default")
    if kind in ("yarn", "llama3", "dynamic"):
        joined.setdefault("original_max_position_embeddings", raw.get("original_max_position_embeddings", context))
    if kind == "dynamic" and joined["original_max_position_embeddings"] != context:
        raise ValueError(
            "original_max_position_embeddings equal to max_position_embeddings: the reference stretches from the latter"
        )
    if kind == "yarn" and joined.get("factor") is None and isinstance(context, int):
        joined["factor"] = context / joined["original_max_position_embeddings"]
