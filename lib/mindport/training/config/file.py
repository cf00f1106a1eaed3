"""The configuration of a training as a YAML file: read strictly, written with the reason of every field.

Relative paths in the file begin at the file's own directory, so that it means the same wherever it is used from; those
of `overrides`, which the command line gives, begin at the working directory. `~` is the home directory. A name that
`mindport fetch` knows, of a model or a text, is that model or text; a folder called so is written ./name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from mindport import sources
from mindport.errors import ConfigError
from mindport.files import write_text
from mindport.training.config import strict_yaml
from mindport.training.config.checks import check
from mindport.training.config.fields import (
    Field,
    field_at,
    fields,
    from_dict,
    leaves,
    to_dict,
    value_of,
    with_value,
)  # fmt: skip
from mindport.training.config.train_config import TrainConfig

PATHS = ("model", "out", "data.train", "data.held_out", "data.directory")
TEXTS = ("data.train", "data.held_out")
WIDTH = 100  # of the value's column and its comment, before a comment gets a line of its own


def read_config(path: Path | str, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read and check a configuration.

    Args:
        path: the YAML file.
        overrides: `optimizer.lr=1e-4`, as `--set` takes them; the last of several for one field counts.

    Returns:
        It with absolute paths.

    Raises:
        FileError: the file cannot be read, or a text that it names is not on this machine.
        ConfigError: a key is unknown or stands there twice, a value has the wrong type or range, or two disagree.
    """
    path = Path(path)
    values = strict_yaml.read(path)
    config = from_dict(TrainConfig, {} if values is None else values, str(path))
    config = override(_rooted(config, path.absolute().parent), overrides)
    check(config, str(path))
    return config


def override(config: TrainConfig, overrides: Sequence[str]) -> TrainConfig:
    """The configuration with other values: `optimizer.lr=1e-4`, the value in YAML.

    Raises:
        ConfigError: there is no such key, or the value is none for it.
    """
    for given in overrides:
        name, equals, text = given.partition("=")
        where = f"--set {name}"
        if not equals:
            raise ConfigError("this sets nothing", where="--set", got=given, expected="KEY=VALUE: optimizer.lr=1e-4")
        field = field_at(TrainConfig, name, "--set")
        if field.is_section:
            raise ConfigError("a section is set field by field", where=where,
                              expected=", ".join(f"{name}.{each}" for each in fields(field.kind)))  # fmt: skip
        config = with_value(config, name, value_of(field, strict_yaml.parse(text, where), where))
        config = _rooted(config, Path.cwd())  # all others are absolute already
    return config


def complete(config: TrainConfig) -> TrainConfig:
    """A configuration that was made in Python, held to what a file is held to; relative paths begin here.

    Raises:
        ConfigError: a value has the wrong type or range, or two disagree.
        FileError: a text that it names is not on this machine.
    """
    config = _rooted(from_dict(TrainConfig, to_dict(config), "configuration"), Path.cwd())
    check(config, "configuration")
    return config


def write_config(config: TrainConfig, path: Path | str) -> Path:
    """Write every field with its reason, so that `read_config` gives the same configuration back."""
    return write_text(Path(path), text_of(config))


def text_of(config: TrainConfig) -> str:
    """The YAML, with comments."""
    return "".join(f"{line}\n" for line in _lines(config))


def _lines(section: Any, indent: str = "") -> Iterator[str]:
    for name, field in fields(type(section)).items():
        value = getattr(section, name)
        if field.is_section:
            yield from ("", f"{indent}{name}:  # {field.reason}", *_lines(value, indent + "  "))
        else:
            yield from _line(f"{indent}{name}: {_yaml(value)}", indent, field)


def _line(said: str, indent: str, field: Field) -> Iterator[str]:
    bounds = f" ({field.range})" if str(field.range) else ""
    comment = f"# {field.reason}{bounds}"
    if len(said) + len(comment) > WIDTH + 20:
        yield from (indent + comment, said)
    else:
        yield f"{said}  {comment}"


def _yaml(value: Any) -> str:
    """One value as YAML on one line, which readers of 1.1 and 1.2 read alike."""
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    if isinstance(value, float):
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))  # 1e-05 is text to YAML 1.1
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _text(value: str) -> str:
    """Text as it stands where that is safe, else in double quotes."""
    if re.fullmatch(r"[A-Za-z/_][A-Za-z0-9/_.-]*", value) and isinstance(yaml.safe_load(value), str):
        return value
    return yaml.dump(value, Dumper=yaml.SafeDumper, default_style='"', width=float("inf"), allow_unicode=True).strip()


def _rooted(config: TrainConfig, base: Path) -> TrainConfig:
    """The configuration with absolute paths; names of models stay, names of texts become their files."""
    for path, value in leaves(config):
        if path in TEXTS:
            config = with_value(config, path, tuple(_text_file(each, base) for each in value))
        elif path in PATHS and value and not (path == "model" and sources.is_name(value)):
            config = with_value(config, path, _absolute(value, base))
    return config


def _text_file(value: str, base: Path) -> str:
    return str(sources.text_file(value) or _absolute(value, base))


def _absolute(value: str, base: Path) -> str:
    return str(Path(base, Path(value).expanduser()).resolve())
