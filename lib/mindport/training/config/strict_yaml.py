"""YAML without surprises: each key once, no references, and the plain values of YAML 1.2.

PyYAML reads YAML 1.1, in which `1e-4` is text, `no` is false, `1:30` is ninety and `012` is ten. Here `1e-4` is a
number, `no` and `1:30` are text, and so is `012`, which no number of a configuration is written like.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from mindport.errors import ConfigError, FileError

_PLAIN = {
    "null": (r"~|null|", ["~", "n", ""]),
    "bool": (r"true|false", list("tf")),
    "int": (r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan", list("-+0123456789.")),
}


class _Loader(yaml.SafeLoader):
    """The safe loader with those rules."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    value: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is no text", key_node.start_mark)
        if key in value:
            raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands there twice",
                                                    key_node.start_mark)  # fmt: skip
        value[key] = loader.construct_object(value_node, deep=True)
    return value


def _number(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node).replace(".inf", "inf").replace(".nan", "nan"))


for _tag, (_pattern, _first) in _PLAIN.items():  # the first pattern that fits is taken
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def parse(text: str, where: object) -> Any:
    """The one document of a text as plain values.

    Args:
        text: YAML.
        where: names it in messages.

    Raises:
        ConfigError: it is not YAML, says a key twice, refers to itself, or holds what is no plain value.
    """
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _Loader)):
            raise ConfigError("this file has a reference (`*name`), which is not read here", where=where,
                              do="write the value out")  # fmt: skip
        return yaml.load(text, _Loader)  # a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError("this is not valid YAML", where=where, got=_one_line(error)) from None


def read(path: Path) -> Any:
    """A file as plain values.

    Raises:
        FileError: it is missing, or cannot be read.
        ConfigError: as `parse`.
    """
    try:
        if path.exists() and not path.is_file():
            raise FileError("the configuration is not a file", where=path)
        return parse(path.read_text(encoding="utf-8-sig"), path)
    except FileNotFoundError:
        raise FileError("there is no such configuration", where=path,
                        do="mindport train --example tiny-gpt2 > train.yaml writes one") from None  # fmt: skip
    except (OSError, UnicodeDecodeError) as error:
        raise FileError("the configuration cannot be read", where=path, got=error) from None


def _one_line(error: Exception) -> str:
    """The problem and its place; YAML's own message shows the text around it, on several lines."""
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{said} (line {mark.line + 1}, column {mark.column + 1})" if mark else said
