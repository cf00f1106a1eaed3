"""The small files beside the weights: configuration, tokenizer, chat template."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from mindport.config.targets import Target
from mindport.files import read_json, write_json, write_text
from mindport.weights.paths import inside

SUFFIXES = {".json", ".txt", ".model", ".jinja", ".md", ""}
LIMIT = 64_000_000  # bytes; the largest tokenizers are half of it
_OWN = ("mindport.json",)


def companions(directory: Path) -> list[Path]:
    """The files of `directory` that go along; links that leave the directory are refused."""
    return [inside(directory, path.name) for path in sorted(directory.iterdir()) if _goes_along(path)]


def copy_companions(directory: Path, target: Path, restored: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Copy them; returns their names. `restored` is the text of those that `directory` holds in another form."""
    files = companions(directory)
    for path in files:
        if path.name in restored:
            write_text(target / path.name, restored[path.name])
        else:
            shutil.copyfile(path, target / path.name)
    return [path.name for path in files]


def rewrite_config(directory: Path, target: Target) -> dict[str, str]:
    """Give `directory` the config.json that the target reads; returns the text that it replaces, by name."""
    path = directory / "config.json"
    if target.config_json is None:
        return {}
    text, raw = path.read_bytes().decode(), read_json(path)
    if (wanted := target.config_json(raw)) == raw:
        return {}
    write_json(path, wanted)
    return {path.name: text}


def _goes_along(path: Path) -> bool:
    if path.name.startswith(".") or path.name in _OWN or path.name.endswith(".index.json") or not path.is_file():
        return False
    return path.suffix in SUFFIXES and path.stat().st_size <= LIMIT
