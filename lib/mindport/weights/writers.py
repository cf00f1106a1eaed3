"""Weight files of a new directory: one safetensors file, shards of at most 5 GB with an index, or a .ckpt."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from mindport.weights.dtypes import BITS
from mindport.weights.layouts import Shape
from mindport.weights.safetensors_io import Header, Writer, make_header

SHARD_BYTES = 5_000_000_000
Specs = Mapping[str, tuple[str, Shape]]  # tensor → (dtype as safetensors' code, shape)


class WeightWriter(Protocol):
    """Takes tensors one by one."""

    def write(self, name: str, x: np.ndarray) -> None:
        """Take one tensor."""

    def close(self, *, complete: bool = True) -> None:
        """Finish the files; `complete` asserts that every promised tensor came."""


@dataclass(frozen=True)
class FileLayout:
    """Which tensors go to which file: file → header, and the index of several files as text."""

    headers: dict[str, Header]
    index: str | None = None

    @property
    def nbytes(self) -> int:
        """The size of all files."""
        return sum(header.size for header in self.headers.values())


class SafetensorsFiles:
    """Writes the files of a layout, a tensor at a time and in any order."""

    def __init__(self, directory: Path, layout: FileLayout) -> None:
        self.writers = [Writer(directory / file, header) for file, header in layout.headers.items()]
        self.by_name = {name: writer for writer in self.writers for name in writer.header.entries}
        if layout.index is not None:
            (directory / "model.safetensors.index.json").write_text(layout.index, encoding="utf-8")

    def write(self, name: str, x: np.ndarray) -> None:
        self.by_name[name].write(name, x)

    def close(self, *, complete: bool = True) -> None:
        for writer in self.writers:
            writer.close(complete=complete)


def new_layout(specs: Specs, metadata: Mapping[str, str]) -> FileLayout:
    """Fill files of at most `SHARD_BYTES` in the order of `specs`; a larger tensor gets a file of its own."""
    groups: list[dict[str, tuple[str, Shape]]] = [{}]
    room = SHARD_BYTES
    for name, (dtype, shape) in specs.items():
        size = nbytes(dtype, shape)
        if groups[-1] and size > room:
            groups.append({})
            room = SHARD_BYTES
        groups[-1][name] = (dtype, shape)
        room -= size
    files = _file_names(len(groups))
    return grouped_layout(dict(zip(files, groups, strict=True)), dict.fromkeys(files, metadata))


def grouped_layout(groups: Mapping[str, Specs], metadata: Mapping[str, Mapping[str, str]]) -> FileLayout:
    """The layout of tensors that have their files already: file → specs."""
    headers = {file: make_header(specs, metadata.get(file, {})) for file, specs in groups.items()}
    if list(headers) == ["model.safetensors"]:
        return FileLayout(headers)
    weight_map = {name: file for file, specs in groups.items() for name in specs}
    total = sum(nbytes(*spec) for specs in groups.values() for spec in specs.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    return FileLayout(headers, json.dumps(index, indent=2) + "\n")


def nbytes(dtype: str, shape: Shape) -> int:
    """The bytes of a tensor."""
    return math.prod(shape) * BITS[dtype] // 8


def _file_names(count: int) -> list[str]:
    if count == 1:
        return ["model.safetensors"]
    return [f"model-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
