"""The small files beside the weights: configuration, tokenizer, chat template."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from mindport.config import ModelConfig
from mindport.config.targets import Target
from mindport.files import read_json, write_json, write_text
from mindport.weights.paths import inside

SUFFIXES = {".json", ".txt", ".model", ".jinja", ".md", ""}
LIMIT = 64_000_000  # bytes; the largest tokenizers are half of it
EXPORT_MARK = "mindport-export.json"  # in a Hugging Face directory that we wrote: it may be replaced
_OWN = ("mindport.json", EXPORT_MARK, "training.json")  # the last of a training's checkpoint
WEIGHTS = {".safetensors", ".bin", ".ckpt", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".onnx"}


def companions(directory: Path) -> list[Path]:
    """The files of `directory` that go along; links that leave the directory are refused."""
    return [inside(directory, path.name) for path in sorted(directory.iterdir()) if _goes_along(path)]


def left_behind(directory: Path) -> list[str]:
    """Names that do not go along and hold no weights: unusual suffixes, large files, folders."""
    names = (path for path in sorted(directory.iterdir()) if not path.name.startswith("."))
    return [path.name for path in names if not _goes_along(path) and not _is_expected(path)]


def copy_companions(directory: Path, target: Path, restored: Mapping[str, str] = MappingProxyType({})) -> None:
    """Copy them, byte for byte; `restored` is the text of those that `directory` holds in another form."""
    for path in companions(directory):
        if path.name in restored:
            write_text(target / path.name, restored[path.name])
        else:
            shutil.copyfile(path, target / path.name)


def exported_from(directory: Path) -> dict[str, str] | None:
    """Of a Hugging Face directory: the digests of the MindPort directory that it is the exact export of, if it is one.

    Raises:
        FileError: its mark cannot be read.
    """
    path = directory / EXPORT_MARK
    mark = read_json(path) if path.is_file() else None
    return mark.get("of") if isinstance(mark, dict) and mark.get("dtype") == "keep" else None


def set_dtype(directory: Path, dtype: str) -> None:
    """Name another precision in config.json, under the key that it uses: loaders cast to what it says."""
    path = directory / "config.json"
    config = read_json(path)
    named = {key: dtype for key in ("dtype", "torch_dtype") if config.get(key) is not None} or {"dtype": dtype}
    if any(config.get(key) != value for key, value in named.items()):
        write_json(path, {**config, **named})


def rewrite_config(directory: Path, target: Target, config: ModelConfig) -> dict[str, str]:
    """Give `directory` the config.json that the target reads; returns the text that it replaces, by name.

    The targets' networks know one vocabulary, so that padding becomes part of it.
    """
    path = directory / "config.json"
    if target.config_json is None:
        return {}
    text, raw = path.read_bytes().decode(), read_json(path)
    if (wanted := {**target.config_json(raw), "vocab_size": config.vocab_rows}) == raw:
        return {}
    write_json(path, wanted)
    return {path.name: text}


def _is_expected(path: Path) -> bool:
    return path.suffix in WEIGHTS or path.name in _OWN or path.name.endswith(".index.json")


def _goes_along(path: Path) -> bool:
    if path.name.startswith(".") or path.name in _OWN or path.name.endswith(".index.json"):
        return False
    if path.is_symlink() and not path.exists():  # `inside` says what to do
        return path.suffix in SUFFIXES
    return path.is_file() and path.suffix in SUFFIXES and path.stat().st_size <= LIMIT
