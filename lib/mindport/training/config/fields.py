"""Plain values ↔ the fields of a configuration, by their types: nothing is converted that was not meant so."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin, get_type_hints

from mindport.errors import ConfigError
from mindport.training.config.ranges import FINITE, Range, is_kept


@dataclass(frozen=True)
class Field:
    """One field of a configuration.

    Attributes:
        name: its key.
        kind: its type: text, a number, a choice, a tuple of those, or a section.
        reason: why it is there; of a section, what the section is.
        range: where its numbers lie.
    """

    name: str
    kind: Any
    reason: str
    range: Range

    @property
    def is_section(self) -> bool:
        return dataclasses.is_dataclass(self.kind)

    @property
    def expected(self) -> str:
        """What a value of it is, in words."""
        return _words(self.kind, str(self.range))


@functools.cache
def fields(section: type) -> Mapping[str, Field]:
    """The fields of a section by name, in order."""
    return {name: _field(name, hint) for name, hint in get_type_hints(section, include_extras=True).items()}


def from_dict(kind: type, values: Any, where: str) -> Any:
    """A section from plain values; what they leave out has its default.

    Args:
        kind: the section's class.
        values: a mapping, as YAML or JSON gives it.
        where: the file, and the way to the section in it, for messages: `train.yaml: optimizer`.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type or outside its range.
    """
    if not isinstance(values, dict):
        raise ConfigError("this is no section of keys and values", where=where, got=_shown(values),
                          expected="keys: " + ", ".join(fields(kind)))  # fmt: skip
    found = {name: _known(kind, name, where) for name in values}
    return kind(**{name: value_of(found[name], value, within(where, name)) for name, value in values.items()})


def to_dict(section: Any) -> dict[str, Any]:
    """The same back: plain values, all fields."""
    return {name: _plain(getattr(section, name)) for name in fields(type(section))}


def value_of(field: Field, value: Any, where: str) -> Any:
    """The value of a field from a plain one.

    Raises:
        ConfigError: it has the wrong type, or lies outside the range.
    """
    if field.is_section:
        return from_dict(field.kind, value, where)
    try:
        return _read(field.kind, value, field.range)
    except (ValueError, OverflowError):
        hint = _hint(field, value)
        raise ConfigError("a value of the configuration is not what it should be", where=where, got=_shown(value),
                          expected=f"{field.expected} ({field.reason})", do=hint) from None  # fmt: skip


def field_at(kind: type, path: str, where: str) -> Field:
    """The field that `optimizer.lr` names.

    Raises:
        ConfigError: there is no such field.
    """
    *sections, last = path.split(".")
    for name in sections:
        section = _known(kind, name, where)
        if not section.is_section:
            raise ConfigError("this key has no keys below it", where=where, got=path, expected=name)
        kind = section.kind
    return _known(kind, last, where)


def with_value(section: Any, path: str, value: Any) -> Any:
    """The section with another value of the field `path`."""
    name, _, rest = path.partition(".")
    return dataclasses.replace(section, **{name: with_value(getattr(section, name), rest, value) if rest else value})


def leaves(section: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every field that is no section: (path, value)."""
    for name, field in fields(type(section)).items():
        value = getattr(section, name)
        yield from leaves(value, f"{before}{name}.") if field.is_section else [(before + name, value)]


def within(where: str, name: str) -> str:
    """`train.yaml: optimizer`, `lr` → `train.yaml: optimizer.lr`."""
    return f"{where}.{name}" if ": " in where else f"{where}: {name}"


def _field(name: str, hint: Any) -> Field:
    if get_origin(hint) is not Annotated:  # a section says in its docstring what it is
        return Field(name, hint, (hint.__doc__ or "").splitlines()[0], FINITE)
    kind, reason, *ranges = get_args(hint)
    return Field(name, kind, reason, *ranges or [FINITE])


def _known(kind: type, name: str, where: str) -> Field:
    known = fields(kind)
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    raise ConfigError("the configuration has no such key", where=within(where, name), got=name,
                      expected=", ".join(known), do=f"did you mean {near[0]}?" if near else None)  # fmt: skip


def _read(kind: Any, value: Any, range_: Range) -> Any:
    """The typed value; ValueError where it is none."""
    origin = get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _read(get_args(kind)[0], value, range_)
    if origin is Literal:
        return value if isinstance(value, str) and value in get_args(kind) else _refuse()
    if origin is tuple:
        return _read_tuple(get_args(kind), value, range_)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind or (kind is str and "\0" in value):
        _refuse()
    if kind in (int, float) and not range_.holds(value):
        _refuse()
    return value


def _read_tuple(kinds: tuple[Any, ...], value: Any, range_: Range) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        _refuse()
    each = [kinds[0]] * len(value) if kinds[-1] is Ellipsis else kinds
    if len(each) != len(value):
        _refuse()
    return tuple(_read(kind, item, range_) for kind, item in zip(each, value, strict=True))


def _refuse() -> NoReturn:
    raise ValueError


def _words(kind: Any, bounds: str) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return _words(arguments[0], bounds) + ", or null"
    if origin is Literal:
        return " or ".join(arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"a list, each of it {_words(arguments[0], bounds)}"
    if origin is tuple:
        return f"a list of {len(arguments)}, each of it {_words(arguments[0], bounds)}"
    name = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}[kind]
    return f"{name} {bounds}".strip() if kind in (int, float) else name


def _hint(field: Field, value: Any) -> str | None:
    """What the writer may have meant."""
    if field.kind is str and isinstance(value, (bool, int, float)):
        return "put quotes around it, if it is meant as text"
    if get_origin(field.kind) is tuple and isinstance(value, (str, int, float)):
        return f"put brackets around it: [{value}]"
    if field.kind is bool and isinstance(value, str):
        return "write true or false"
    if type(value) is int and not is_kept(value):
        return "numbers are kept as int32 and float32: take a smaller one"
    if type(value) is float and value - value == 0 and not is_kept(value):
        return "numbers are kept as float32: from 1.2e-38 to 3.4e38, or 0"
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return list(value) if isinstance(value, tuple) else value
