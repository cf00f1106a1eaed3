"""Arrays by name that lie in files whole, or in pieces: put together when they are asked for, or read in part.

A part is read at its offsets, run by run: a process that needs a half of each array reads a half of the bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindport.errors import FileError
from mindport.training.checkpoint import boxes
from mindport.training.checkpoint.boxes import Box
from mindport.weights.dtypes import ARRAYS
from mindport.weights.layouts import Shape
from mindport.weights.safetensors_io import Header, read_header
from mindport.weights.writers import Specs


@dataclass(frozen=True)
class Held:
    """Where an array lies.

    Attributes:
        dtype: safetensors' code.
        shape: of the whole.
        parts: file → which part of it the file has.
    """

    dtype: str
    shape: Shape
    parts: Mapping[str, Box]


class Pieces(Mapping[str, np.ndarray]):
    """Name → whole array; each look-up reads from the disk.

    Attributes:
        held: name → where it lies.
    """

    def __init__(self, directory: Path, held: Mapping[str, Held], headers: Mapping[str, Header]) -> None:
        self.directory, self.held, self._headers = directory, dict(held), headers

    def __getitem__(self, name: str) -> np.ndarray:
        return self.part(name, ())

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __contains__(self, name: object) -> bool:
        return name in self.held  # Mapping's own would read the array

    def __len__(self) -> int:
        return len(self.held)

    @property
    def specs(self) -> Specs:
        """Name → safetensors' code and shape."""
        return {name: (held.dtype, held.shape) for name, held in self.held.items()}

    def only(self, names: Iterable[str]) -> Pieces:
        """Those of these names, in this order."""
        return Pieces(self.directory, {name: self.held[name] for name in names}, self._headers)

    def part(self, name: str, part: Box) -> np.ndarray:
        """A part of an array, in memory of its own; of the files only that part is read.

        Raises:
            KeyError: there is no such array.
            UsageError: it has no such part.
            FileError: a file cannot be read.
        """
        held = self.held[name]
        box = boxes.boxed(part, held.shape)
        out = np.empty(boxes.shape_of(box), ARRAYS[held.dtype])
        for file, there in held.parts.items():
            common = boxes.overlap(box, there)
            if common is not None:
                out[boxes.within(common, box)] = self._read(file, name, boxes.within(common, there))
        return out

    def _read(self, file: str, name: str, box: Box) -> np.ndarray:
        return read_part(self.directory / file, self._headers[file], name, box)


class OnDisk:
    """An array that stays where it lies; `x[part]` reads that part alone.

    Attributes:
        shape: of the whole.
    """

    def __init__(self, pieces: Pieces, name: str) -> None:
        self._pieces, self._name = pieces, name
        self.shape = pieces.held[name].shape

    def __getitem__(self, part: Box) -> np.ndarray:
        return self._pieces.part(self._name, part)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._pieces[self._name], dtype)


def open_files(directory: Path, files: Iterable[str]) -> Pieces:
    """The arrays of safetensors files that hold whole ones.

    Raises:
        FileError: a file is damaged.
    """
    headers = {file: read_header(directory / file) for file in files}
    held = {name: Held(entry.dtype, entry.shape, {file: boxes.whole(entry.shape)})
            for file, header in headers.items() for name, entry in header.entries.items()}  # fmt: skip
    return Pieces(directory, held, headers)


def read_part(path: Path, header: Header, name: str, box: Box) -> np.ndarray:
    """A part of one array of a safetensors file, of which nothing else is read.

    Raises:
        FileError: the file ends before the array does, or cannot be read.
    """
    entry = header.entries[name]
    out = np.empty(boxes.shape_of(box), ARRAYS[entry.dtype])
    runs = out.reshape(_runs(box, entry.shape), -1).view(np.uint8) if out.size else ()
    try:
        with open(path, "rb", buffering=0) as file:
            for start, run in zip(_starts(box, entry.shape), runs, strict=False):
                file.seek(header.data + entry.start + start * out.itemsize)
                _fill(file, memoryview(run), path)
    except OSError as error:
        raise FileError("the file cannot be read", where=path, got=error) from None
    return out


def _fill(file, into: memoryview, path: Path) -> None:
    while into:
        got = file.readinto(into)
        if not got:
            raise FileError("the file ends before its last array does", where=path, got=f"{len(into):,} bytes too few")
        into = into[got:]


def _cut(box: Box, shape: Shape) -> int:
    """The last axis that the part has not all of; what comes after it lies in one run."""
    return max((axis for axis, part in enumerate(box) if shape[axis] != part.stop - part.start), default=0)


def _runs(box: Box, shape: Shape) -> int:
    return math.prod(boxes.shape_of(box)[: _cut(box, shape)])


def _starts(box: Box, shape: Shape) -> Iterator[int]:
    """Where the runs begin, in elements from the array's first."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    first = sum(part.start * stride for part, stride in zip(box, strides, strict=True))
    for index in np.ndindex(*boxes.shape_of(box)[: _cut(box, shape)]):
        yield first + sum(i * stride for i, stride in zip(index, strides, strict=False))
