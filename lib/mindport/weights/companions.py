"""The small files beside the weights: configuration, tokenizer, chat template."""

from __future__ import annotations

import shutil
from pathlib import Path

from mindport.weights.paths import inside

SUFFIXES = {".json", ".txt", ".model", ".jinja", ".md", ""}
LIMIT = 64_000_000  # bytes; the largest tokenizers are half of it
_OWN = ("mindport.json",)


def companions(directory: Path) -> list[Path]:
    """The files of `directory` that go along; links that leave the directory are refused."""
    return [inside(directory, path.name) for path in sorted(directory.iterdir()) if _goes_along(path)]


def copy_companions(directory: Path, target: Path) -> list[str]:
    """Copy them; returns their names."""
    files = companions(directory)
    for path in files:
        shutil.copyfile(path, target / path.name)
    return [path.name for path in files]


def _goes_along(path: Path) -> bool:
    if path.name.startswith(".") or path.name in _OWN or path.name.endswith(".index.json") or not path.is_file():
        return False
    return path.suffix in SUFFIXES and path.stat().st_size <= LIMIT
