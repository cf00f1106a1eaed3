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
from mindport.config.readers import boolean, number, positive_float, positive_floats, positive_int

OBJECTS = ("rope_parameters", "rope_scaling")
PARTIAL = "partial_rotary_factor"
ECHOES = ("rope_theta", PARTIAL)

NEEDED: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    "longrope": ("factor", "original_max_position_embeddings", "short_factor", "long_factor"),
}
OPTIONAL = {
    "longrope": ("attention_factor",),
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
}
IGNORED = {"finetuned"}  # says how the model was made, not what it computes
_READ = {
    "original_max_position_embeddings": positive_int,
    "max_position_embeddings": positive_int,
    "truncate": boolean,
    "short_factor": positive_floats,
    "long_factor": positive_floats,
}


def join_rope(
    raw: Mapping[str, Any],
    keys: Mapping[str, str] = ROPE_KEYS,
    defaults: Mapping[str, float] = ROPE_DEFAULTS,
    over: Mapping[str, float] | None = None,
) -> dict[str, Any] | None:
    """One dictionary out of the spellings that `raw` uses; None when it uses none.

    Args:
        raw: a parsed config.json.
        keys: those beside the object that the family's class reads → the rope parameter that each stands for.
        defaults: what the class fills in.
        over: what the class puts in the object's place when the key beside it is missing.

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
    for key, value in (over or {}).items():
        if raw.get(key) is None and key in joined:
            _merge(joined, "the configuration class", {key: value})
    filled = {**defaults, **(over or {}), **joined}
    _agree_with_echoes(raw, keys, filled)
    if not joined:
        return None
    _fill(filled, raw)
    return filled


def text_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those rope parameters that are numbers written as text, or hold such in a list, as numbers."""
    found = {key: _as_numbers(key, value) for key, value in given.items() if key in _NUMBERS}
    return {key: value for key, value in found.items() if value is not None}


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
        if not isinstance(joined, Mapping):
            raise ValueError("an object of names and numbers")
        kind = joined.get("rope_type", "default")
        if not isinstance(kind, str) or kind not in types:
            raise ValueError(f"rope_type one of {', '.join(types)}, not {kind!r}")
        if not partial and joined.get(PARTIAL) not in (None, 1):
            raise ValueError(f"{PARTIAL} 1: partly rotated heads are not computed by this family")
        _check_keys(joined, kind)
        taken = {"rope_theta", *NEEDED[kind], *OPTIONAL.get(kind, ())}
        values = {key: _value(key, joined[key]) for key in taken if joined.get(key) is not None}
        rope = Rope(rope_type=kind, **values)  # type: ignore[arg-type]
        _check_sense(rope)
        return rope

    return read


read_rope = rope_reader()


def rotary_dim(default: float) -> Derived:
    """The rotated dimensions of a head, from the fraction; `default` is the fraction of the configuration class."""

    def compute(joined: Mapping[str, Any]) -> int:
        given = joined.get("rope_parameters")
        part = given.get(PARTIAL, default) if isinstance(given, Mapping) else default
        if isinstance(part, bool) or not isinstance(part, (int, float)) or not 0 < part <= 1:
            raise ValueError(f"{PARTIAL} above 0 and at most 1, not {part!r}")
        return int((joined.get("head_dim") or joined["hidden_size"] // joined["num_attention_heads"]) * part)

    return Derived(f"head_dim · {PARTIAL}, rounded down", compute)


def fraction(config: ModelConfig) -> float:
    """The fraction that gives the configuration's rotated dimensions."""
    exact = config.rotated / config.head_dim
    return exact if int(config.head_dim * exact) == config.rotated else math.nextafter(exact, 1)


def _check_keys(joined: Mapping[str, Any], kind: str) -> None:
    if missing := [key for key in ("rope_theta", *NEEDED[kind]) if joined.get(key) is None]:
        raise ValueError(f"{kind} rope scaling with {', '.join(missing)}")
    known = {"rope_theta", "rope_type", PARTIAL, *NEEDED[kind], *OPTIONAL.get(kind, ()), *IGNORED}
    extra = [key for key in joined if key not in known and not (kind == "default" and key in _NAMES)]
    if extra:
        raise ValueError(f"{kind} rope parameters without {', '.join(extra)}")


_NAMES = {field.name for field in fields(Rope)}
_NUMBERS = {*_NAMES, PARTIAL} - {"rope_type", "truncate"}


def _as_numbers(key: str, value: Any) -> Any:
    """None where the value is no such text."""
    if isinstance(value, str):
        return number(value, _READ.get(key, positive_float))
    if not isinstance(value, list) or not any(isinstance(item, str) for item in value):
        return None
    read = [number(item, positive_float) if isinstance(item, str) else item for item in value]
    return None if None in read else read


def _value(key: str, value: Any) -> Any:
    try:
        return _READ.get(key, positive_float)(value)
    except ValueError as expected:
        raise ValueError(f"{key}: {expected}, not {value!r}") from None


def _check_sense(rope: Rope) -> None:
    """Numbers that are legal each by itself, and from which no frequencies follow."""
    if rope.rope_theta <= 1:
        raise ValueError(f"rope_theta above 1, not {rope.rope_theta:g}: the wavelengths grow with its powers")
    low, high = rope.low_freq_factor, rope.high_freq_factor
    if low is not None and high is not None and low >= high:
        raise ValueError(f"low_freq_factor below high_freq_factor, not {low:g} and {high:g}: a band lies between them")


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
    if kind in ("yarn", "llama3", "dynamic", "longrope"):
        joined.setdefault("original_max_position_embeddings", raw.get("original_max_position_embeddings", context))
    if kind == "dynamic" and joined["original_max_position_embeddings"] != context:
        raise ValueError(
            "original_max_position_embeddings equal to max_position_embeddings: the reference stretches from the latter"
        )
    if kind in ("yarn", "longrope") and joined.get("factor") is None:
        original = _value("original_max_position_embeddings", joined["original_max_position_embeddings"])
        joined["factor"] = _value("max_position_embeddings", context) / original
