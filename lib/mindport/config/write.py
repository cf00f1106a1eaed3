"""`ModelConfig` out again: as a manifest's object, and as a config.json of its family."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from mindport.config.constraints import constraints
from mindport.config.dialects import dialect_for
from mindport.config.model_config import ModelConfig, Rope
from mindport.config.readers import layer_count, positive_float, positive_int, probability
from mindport.config.rope import PARTIAL, fraction, read_rope
from mindport.config.vocabulary import Vocabulary
from mindport.errors import ConfigError

_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "relu": "relu"}
_RANGES = {
    "num_hidden_layers": layer_count,
    "padded_vocab": lambda rows: rows is None or positive_int(rows),
    "window": lambda sizes: [positive_int(size) for size in sizes or () if size is not None],
    **dict.fromkeys(("norm_eps", "initializer_range", "embedding_scale"), positive_float),
    **dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), probability),
}
_hints = functools.cache(get_type_hints)


def to_dict(config: ModelConfig) -> dict[str, Any]:
    """All fields as JSON values."""
    return dataclasses.asdict(config)


def from_dict(values: Mapping[str, Any]) -> ModelConfig:
    """The inverse of `to_dict`.

    Raises:
        ConfigError: fields are missing or unknown, a value is not of its field's type or range, or they contradict.
    """
    if not isinstance(values, Mapping):
        raise ConfigError("this is not a model configuration", got=type(values).__name__, expected="an object")
    content = dict(values)
    if content.get("rope") is not None:
        content["rope"] = _rope(content["rope"])
    content = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    for name, kind in _hints(ModelConfig).items():
        if name in content:
            _check(name, content[name], kind)
    try:
        model = ModelConfig(**content)
    except TypeError as error:
        raise ConfigError("this is not a model configuration of this version", got=error) from None
    _check_whole(model)
    return model


def fits(value: Any, kind: Any) -> bool:
    """Whether a value that was read from JSON is what an annotation says."""
    inner = get_args(kind)
    match get_origin(kind):
        case None:
            finite = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
            return kind is Any or type(value) is kind or (kind is float and finite and not isinstance(value, bool))
        case origin if origin is Literal:
            return any(type(value) is type(one) and value == one for one in inner)
        case origin if origin in (Union, types.UnionType):
            return any(fits(value, one) for one in inner)
        case origin if origin is dict:
            return isinstance(value, dict) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
        case origin:
            return isinstance(value, origin) and all(fits(item, inner[0]) for item in value)


def to_huggingface(config: ModelConfig) -> dict[str, Any]:
    """A config.json of the model's family that reads back as `config`; padding is declared beside it."""
    dialect = dialect_for(config.model_type)
    values = {field.key: _json(getattr(config, field.name.split()[0])) for field in dialect.fields}
    values |= {key: _json(value(config)) for key, value in dialect.written.items()}
    if PARTIAL in dialect.rope_keys.values():
        values["rope_parameters"] |= {PARTIAL: fraction(config)}
    return {"model_type": dialect.model_type, "architectures": [dialect.architecture], **values}


def _check(name: str, value: Any, kind: Any) -> None:
    if not fits(value, kind):
        said = str(kind) if get_origin(kind) else kind.__name__
        raise ConfigError("a field of the model configuration has a wrong value", where=name, got=repr(value),
                          expected=said.replace("typing.", ""))  # fmt: skip
    read = _RANGES.get(name) or (positive_int if kind is int else None)
    try:
        if read is not None:
            read(value)
    except ValueError as expected:
        raise ConfigError(
            "a field of the model configuration has a wrong value", where=name, got=repr(value), expected=expected
        ) from None


def _check_whole(model: ModelConfig) -> None:
    dialect_for(model.model_type, "model_type")
    for rule in constraints(model, Vocabulary(), to_dict(model)):
        if not rule.ok:
            raise ConfigError("the model configuration contradicts itself", where=rule.name, got=rule.got,
                              expected=rule.expected, do=rule.do)  # fmt: skip


def _rope(values: Any) -> Rope:
    """Read as a config.json's would be: each type of scaling needs its own numbers."""
    try:
        return read_rope(_spoken(values) if isinstance(values, Mapping) else values)
    except ValueError as expected:
        raise ConfigError("a field of the model configuration has a wrong value", where="rope", got=values,
                          expected=expected) from None  # fmt: skip


def _json(value: Any) -> Any:
    if isinstance(value, Rope):
        return _spoken(dataclasses.asdict(value))
    if isinstance(value, str):
        return _ACTIVATIONS.get(value, value)
    return list(value) if isinstance(value, tuple) else value


def _spoken(rope: Mapping[str, Any]) -> dict[str, Any]:
    """What is said; `truncate` belongs to yarn only."""
    return {
        key: item
        for key, item in rope.items()
        if item is not None and not (key == "truncate" and rope.get("rope_type") != "yarn")
    }
