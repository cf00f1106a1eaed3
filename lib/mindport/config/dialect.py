"""A dialect: how one family writes the same GPT, as tables only.

`fields` says which config.json key is which `ModelConfig` field, `rows` which foreign tensor is which hub
parameter(s), `modules` which foreign module is which cell. Both directions of everything are derived from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Layout = Literal["same", "transpose", "split_qkv", "grouped_qkv", "interleave"]
Raw = Mapping[str, Any]  # a parsed config.json


class Required:
    """Marks a key without which there is no model."""

    def __repr__(self) -> str:
        return "required"


REQUIRED = Required()


@dataclass(frozen=True, slots=True)
class Derived:
    """A value that follows from other keys: how, in words, and the computation."""

    how: str
    compute: Callable[[Raw], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One config.json key ↔ a field of `ModelConfig`.

    Attributes:
        key: the family's key.
        name: the field; several, separated by spaces, when the family has one key for them.
        read: turns the JSON value into the field's, raising `ValueError` with what is allowed.
        absent: the value when the key is missing or null: `REQUIRED`, `Derived`, or the default of the family's
            configuration class, as config.json would write it.
    """

    key: str
    name: str
    read: Callable[[Any], Any]
    absent: Any = REQUIRED


@dataclass(frozen=True, slots=True)
class Refusal:
    """A key that must have one of the `allowed` values, since the model computes nothing else."""

    key: str
    allowed: tuple[Any, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """Hub parameter(s) ↔ one foreign tensor.

    Attributes:
        hub: names of the hub, separated by spaces when one foreign tensor holds several.
        foreign: the family's name.
        layout: how the values lie: a name in `mindport.weights.layouts.LAYOUTS` or `layouts_fused.FUSED`.
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

    def module_pairs(self) -> list[tuple[tuple[str, ...], str]]:
        """(cells, foreign module) for every module that both sides have, `{}` for the layer.

        A fused module (GPT-2's c_attn) stands for several cells: its output is theirs, joined on the last axis.
        """
        pairs = {_owner(row.foreign): tuple(map(_owner, row.hub.split())) for row in self.rows}
        return [(cells, foreign) for foreign, cells in pairs.items()] + [
            ((hub,), foreign) for hub, foreign in self.modules
        ]


def pair(hub: str, foreign: str, layout: Layout = "same") -> tuple[Row, Row]:
    """Rows for a module's weight and bias."""
    return Row(f"{hub}.weight", f"{foreign}.weight", layout), Row(f"{hub}.bias", f"{foreign}.bias")


def _owner(name: str) -> str:
    """The module of a parameter's name."""
    return name.rpartition(".")[0]
