"""Arrays by name as a safetensors file: taken from the device, written one after the other, read when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config import ModelConfig, schema
from mindport.errors import FileError, UsageError, some
from mindport.files import flush
from mindport.training.checkpoint.snapshot import Arrays
from mindport.weights.dtypes import ARRAYS, code_of, digest
from mindport.weights.safetensors_io import fingerprint, read_header, read_tensor
from mindport.weights.writers import FileLayout, SafetensorsFiles, Specs

RESERVED = "__metadata__"


def take_weights(weights: Arrays, model: ModelConfig) -> dict[str, np.ndarray]:
    """Copies of a model's weights, in the hub's order.

    Raises:
        UsageError: names, shapes or precisions are not the model's.
    """
    shapes = schema.shapes(model)
    if odd := sorted(shapes.keys() ^ weights.keys()):
        raise UsageError("the weights of the snapshot are not the parameters of the model", got=some(odd),
                         expected=f"{len(shapes)} parameters, each once")  # fmt: skip
    taken = {name: _copy(weights[name]) for name in shapes}
    wrong = [
        f"{n} {x.dtype} {list(x.shape)}" for n, x in taken.items() if (x.dtype, x.shape) != (np.float32, shapes[n])
    ]
    if wrong:
        raise UsageError("weights of the snapshot have another shape or precision than the model's", got=some(wrong),
                         expected="float32, in the shapes of the schema")  # fmt: skip
    return taken


def take_state(state: Arrays) -> dict[str, np.ndarray]:
    """Copies of the other arrays of a training.

    Raises:
        UsageError: one has a name or a type that the file cannot hold.
    """
    taken = {name: _copy(x) for name, x in state.items()}
    types = tuple(ARRAYS.values())
    wrong = [f"{name} {x.dtype}" for name, x in taken.items() if x.dtype not in types or not _is_name(name)]
    if wrong:
        raise UsageError("arrays of the snapshot cannot be stored", got=some(wrong),
                         expected="plain names, and types of " + ", ".join(map(str, types)))  # fmt: skip
    return taken


def specs_of(arrays: Arrays) -> Specs:
    """Name → safetensors' code and shape."""
    return {name: (code_of(x), x.shape) for name, x in arrays.items()}


def write_files(directory: Path, layout: FileLayout, arrays: Arrays) -> dict[str, dict[str, Any]]:
    """Write the files of a layout and read them again; file → its SHA-256 and its size.

    One file after the other, in this thread: at the end of a process no other can be begun.

    Raises:
        FileError: what stands there is not what was meant.
    """
    writer, meant, done = SafetensorsFiles(directory, layout), {}, False
    try:
        for name, x in arrays.items():
            writer.write(name, x)
            meant[name] = digest(x)
        done = True
    finally:
        writer.close(complete=done)
    return {file: _prove(directory / file, meant) for file in layout.headers}


def _prove(path: Path, meant: Mapping[str, str]) -> dict[str, Any]:
    flush(path)
    whole, found = fingerprint(path)
    if wrong := [name for name in found if meant[name] != found[name]]:
        raise FileError("what was written does not read back as it was meant", where=path, got=some(wrong),
                        do="check the disk and the memory")  # fmt: skip
    return {"sha256": whole, "bytes": path.stat().st_size}


class ArrayFile(Mapping[str, np.ndarray]):
    """Name → array of a safetensors file; each look-up reads from the disk."""

    def __init__(self, path: Path) -> None:
        self.path, self._header = path, read_header(path)

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self:
            raise KeyError(name)
        return read_tensor(self.path, self._header, name, ARRAYS)

    def __iter__(self) -> Iterator[str]:
        return iter(self._header.entries)

    def __contains__(self, name: object) -> bool:
        return name in self._header.entries  # Mapping's own would read the array

    def __len__(self) -> int:
        return len(self._header.entries)


def _copy(x: np.ndarray) -> np.ndarray:
    return np.array(x, order="C", copy=True)  # asnumpy() is the parameter's own memory: the next step changes it


def _is_name(name: str) -> bool:
    return name != RESERVED and name == name.encode("utf-8", "replace").decode()
