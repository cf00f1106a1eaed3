"""Rotary positions in config.json: three spellings, one `Rope`.

    before 4.45   "rope_theta": 500000.0, "rope_scaling": {"type": "linear", "factor": 2.0}
    before 5      "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, …}
    since 5       "rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, …}

Which keys a type needs, and what stands in for a missing one, follows `modeling_rope_utils.py` of transformers 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from mindport.config.model_config import Rope
from mindport.config.readers import boolean, positive_float, positive_int

SPELLINGS = ("rope_parameters", "rope_scaling", "rope_theta")
DEFAULT_THETA = 10_000.0

NEEDED: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
}
OPTIONAL = {"yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")}
IGNORED = {"finetuned"}  # says how the model was made, not what it computes
_READ = {
    "original_max_position_embeddings": positive_int,
    "max_position_embeddings": positive_int,
    "truncate": boolean,
}


def join_rope(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """One dictionary out of the spellings that `raw` uses; None when it uses none.

    Raises:
        ValueError: two spellings disagree, or one is not of its form.
    """
    joined: dict[str, Any] = {}
    for key in SPELLINGS:
        if raw.get(key) is not None:
            _merge(joined, key, {"rope_theta": raw[key]} if key == "rope_theta" else raw[key])
    if not joined:
        return None
    _fill(joined, raw)
    return joined


def read_rope(joined: Mapping[str, Any]) -> Rope:
    """A `Rope` from the joined dictionary, with every key of it accounted for.

    Raises:
        ValueError: an unknown type, a missing or superfluous key, or a bad value.
    """
    if not isinstance(joined, Mapping):
        raise ValueError("an object of names and numbers")
    kind = joined.get("rope_type", "default")
    if not isinstance(kind, str) or kind not in NEEDED:
        raise ValueError(f"rope_type one of {', '.join(NEEDED)}, not {kind!r}")
    if missing := [key for key in ("rope_theta", *NEEDED[kind]) if joined.get(key) is None]:
        raise ValueError(f"{kind} rope scaling with {', '.join(missing)}")
    if joined.get("partial_rotary_factor") not in (None, 1):
        raise ValueError("partial_rotary_factor 1: partly rotated heads are not computed by this family")
    known = {"rope_theta", "rope_type", "partial_rotary_factor", *NEEDED[kind], *OPTIONAL.get(kind, ()), *IGNORED}
    extra = [key for key in joined if key not in known and not (kind == "default" and key in _NAMES)]
    if extra:
        raise ValueError(f"{kind} rope parameters without {', '.join(extra)}")
    taken = {"rope_theta", *NEEDED[kind], *OPTIONAL.get(kind, ())}
    values = {key: _value(key, joined[key]) for key in taken if joined.get(key) is not None}
    rope = Rope(rope_type=kind, **values)  # type: ignore[arg-type]
    _check_sense(rope)
    return rope


_NAMES = {field.name for field in fields(Rope)}


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


def _fill(joined: dict[str, Any], raw: Mapping[str, Any]) -> None:
    """What the reference fills in for keys that are absent."""
    joined.setdefault("rope_theta", DEFAULT_THETA)
    context, kind = raw.get("max_position_embeddings"), joined.setdefault("rope_type", "default")
    if kind in ("yarn", "llama3", "dynamic"):
        joined.setdefault("original_max_position_embeddings", raw.get("original_max_position_embeddings", context))
    if kind == "dynamic" and joined["original_max_position_embeddings"] != context:
        raise ValueError(
            "original_max_position_embeddings equal to max_position_embeddings: the reference stretches from the latter"
        )
    if kind == "yarn" and joined.get("factor") is None:
        original = _value("original_max_position_embeddings", joined["original_max_position_embeddings"])
        joined["factor"] = _value("max_position_embeddings", context) / original
