"""`ModelConfig` out again: as a manifest's object, and as a config.json of its family."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from mindport.config.dialects import dialect_for
from mindport.config.model_config import ModelConfig, Rope
from mindport.config.rope import PARTIAL, fraction
from mindport.errors import ConfigError

_TUPLES = ("eos_token_id", "window")  # lists in JSON
_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "relu": "relu"}


def to_dict(config: ModelConfig) -> dict[str, Any]:
    """All fields as JSON values."""
    return dataclasses.asdict(config)


def from_dict(values: Mapping[str, Any]) -> ModelConfig:
    """The inverse of `to_dict`.

    Raises:
        ConfigError: fields are missing or unknown.
    """
    content = dict(values)
    try:
        if content.get("rope") is not None:
            content["rope"] = Rope(**content["rope"])
        content |= {name: tuple(content[name]) for name in _TUPLES if isinstance(content.get(name), list)}
        return ModelConfig(**content)
    except TypeError as error:
        raise ConfigError("this is not a model configuration of this version", got=error) from None


def to_huggingface(config: ModelConfig) -> dict[str, Any]:
    """A config.json of the model's family that reads back as `config`."""
    dialect = dialect_for(config.model_type)
    values = {field.key: _json(getattr(config, field.name.split()[0])) for field in dialect.fields}
    values |= {key: _json(value(config)) for key, value in dialect.written.items()}
    if PARTIAL in dialect.rope_keys.values():
        values["rope_parameters"] |= {PARTIAL: fraction(config)}
    return {"model_type": dialect.model_type, "architectures": [dialect.architecture], **values}


def _json(value: Any) -> Any:
    if isinstance(value, Rope):
        return {
            key: item for key, item in dataclasses.asdict(value).items() if item is not None and not _idle(key, value)
        }
    if isinstance(value, str):
        return _ACTIVATIONS.get(value, value)
    return list(value) if isinstance(value, tuple) else value


def _idle(key: str, rope: Rope) -> bool:
    """`truncate` belongs to yarn only."""
    return key == "truncate" and rope.rope_type != "yarn"
