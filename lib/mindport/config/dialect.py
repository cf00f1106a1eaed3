"""A dialect: how one family writes the same GPT, as tables only.

`fields` says which config.json key is which `ModelConfig` field, `rows` which foreign tensor is which hub
parameter(s), `modules` which foreign module is which cell. Both directions of everything are derived from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mindport.config.model_config import ModelConfig

Layout = Literal["same", "transpose", "split_qkv", "stack", "grouped_qkv", "interleave"]
Raw = Mapping[str, Any]  # a parsed config.json
ROPE_KEYS: Mapping[str, str] = {"rope_theta": "rope_theta"}  # what most families have, and the default of all
ROPE_DEFAULTS: Mapping[str, float] = {"rope_theta": 10_000.0}


class Required:
    """Marks a key without which there is no model."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Required()


@dataclass(frozen=True, slots=True)
class Derived:
    """A value that follows from other keys.

    Attributes:
        how: the rule, in words.
        compute: the rule; raises `ValueError` with what would be right.
        keys: those that it reads and that no `Field` reads → what reads a number there, None for other values.
    """

    how: str
    compute: Callable[[Raw], Any]
    keys: Mapping[str, Callable[[Any], Any] | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Field:
    """One config.json key ↔ a field of `ModelConfig`.

    Attributes:
        key: the family's key.
        name: the field; several, separated by spaces, when the family has one key for them.
        read: turns the JSON value into the field's, raising `ValueError` with what is allowed.
        absent: the value when the key is missing or null: `REQUIRED`, `Derived`, or the default of the family's
            configuration class, as config.json would write it.
        null: the value when the key is there and null, where that means something else.
    """

    key: str
    name: str
    read: Callable[[Any], Any]
    absent: Any = REQUIRED
    null: Derived | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A key that must have one of the `allowed` values, since the model computes nothing else.

    Attributes:
        key: of config.json; several, separated by spaces, when one reason holds for them.
        allowed: values that change nothing.
        reason: why another one stops.
        detail: what the value found means, said after the reason.
    """

    key: str
    allowed: tuple[Any, ...]
    reason: str
    detail: Callable[[Any], str] | None = None

    def note(self, value: Any) -> str:
        """The reason, for this value."""
        return f"{self.reason}: {self.detail(value)}" if self.detail else self.reason


@dataclass(frozen=True, slots=True)
class Row:
    """Hub parameter(s) ↔ one foreign tensor.

    Attributes:
        hub: names of the hub, separated by spaces when one foreign tensor holds several.
        foreign: the family's name.
        layout: how the values lie: a name in `mindport.weights.layouts.LAYOUTS`.
    """

    hub: str
    foreign: str
    layout: Layout = "same"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One family.

    Attributes:
        model_type: Hugging Face's `model_type`.
        architecture: the class that config.json may name, and that the reference loads.
        config_class: whose defaults stand in `fields`.
        fields: the config table.
        constants: `ModelConfig` fields that the family fixes; a `Derived` follows from other keys.
        refused: settings that the model does not compute.
        harmless: keys that change neither the weights nor the forward pass → why.
        rows: the weight table.
        modules: foreign module ↔ cell, beyond those that hold parameters.
        dropped: buffers that some files carry, by exact name; nothing else is ever dropped.
        prefix: what the reference's class, and some files, put before every name but the head's.
        rope_keys: keys beside `rope_parameters` that stand for one of its values.
        rope_defaults: what the configuration class puts in where `rope_parameters` lacks it.
        rope_over: what the configuration class puts in its place when the key of this name beside it is missing.
        written: keys of config.json that come of no single field → their value.
    """

    model_type: str
    architecture: str
    config_class: str
    fields: tuple[Field, ...]
    constants: Mapping[str, Any]
    refused: tuple[Refusal, ...]
    harmless: Mapping[str, str]
    rows: tuple[Row, ...]
    modules: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...] = ()
    prefix: str = ""
    rope_keys: Mapping[str, str] = field(default_factory=lambda: ROPE_KEYS)
    rope_defaults: Mapping[str, float] = field(default_factory=lambda: ROPE_DEFAULTS)
    rope_over: Mapping[str, float] = field(default_factory=dict)
    written: Mapping[str, Callable[[ModelConfig], Any]] = field(default_factory=dict)

    def module_pairs(self) -> list[ModulePair]:
        """Every module that both sides have, `{}` for the layer."""
        pairs = {_owner(row.foreign): (tuple(map(_owner, row.hub.split())), row.layout) for row in self.rows}
        pairs |= {foreign: ((hub,), "same") for hub, foreign in self.modules}
        return [ModulePair(cells, foreign, layout) for foreign, (cells, layout) in pairs.items()]

    def derived(self) -> dict[str, Derived]:
        """Fields of `ModelConfig` that follow from other keys."""
        return {name: value for name, value in self.constants.items() if isinstance(value, Derived)}


@dataclass(frozen=True, slots=True)
class ModulePair:
    """Our cells ↔ one foreign module.

    A fused module (GPT-2's c_attn) stands for several cells: its outputs are theirs, and lie as a bias of its would.

    Attributes:
        cells: ours.
        foreign: the module.
        layout: of the module's bias and outputs, when there are several cells.
    """

    cells: tuple[str, ...]
    foreign: str
    layout: Layout


def pair(hub: str, foreign: str, layout: Layout = "same") -> tuple[Row, Row]:
    """Rows for a module's weight and bias."""
    return Row(f"{hub}.weight", f"{foreign}.weight", layout), Row(f"{hub}.bias", f"{foreign}.bias")


def _owner(name: str) -> str:
    """The module of a parameter's name."""
    return name.rpartition(".")[0]
