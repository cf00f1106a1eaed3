"""Arrays by name as a safetensors file: taken from the device, and written one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config import ModelConfig, schema
from mindport.errors import FileError, UsageError, some
from mindport.files import flush
from mindport.training.checkpoint.pieces import Pieces
from mindport.training.checkpoint.snapshot import Arrays
from mindport.weights.dtypes import ARRAYS, code_of, digest
from mindport.weights.layouts import Shape
from mindport.weights.safetensors_io import fingerprint
from mindport.weights.writers import FileLayout, SafetensorsFiles, Specs

RESERVED = "__metadata__"


def take_weights(weights: Arrays, model: ModelConfig) -> dict[str, np.ndarray]:
    """Copies of a model's weights, in the hub's order.

    Raises:
        UsageError: names, shapes or precisions are not the model's.
    """
    shapes = schema.shapes(model)
    check_names(weights, shapes)
    taken = {name: copied(weights[name]) for name in shapes}
    wrong = [
        f"{n} {x.dtype} {list(x.shape)}" for n, x in taken.items() if (x.dtype, x.shape) != (np.float32, shapes[n])
    ]
    if wrong:
        raise UsageError("weights of the snapshot have another shape or precision than the model's", got=some(wrong),
                         expected="float32, in the shapes of the schema")  # fmt: skip
    return taken


def check_names(weights: Arrays, shapes: Mapping[str, Shape]) -> None:
    """Hold the names of a snapshot's weights to the model's.

    Raises:
        UsageError: one is missing, or is none of a parameter.
    """
    if odd := sorted(shapes.keys() ^ weights.keys()):
        raise UsageError("the weights of the snapshot are not the parameters of the model", got=some(odd),
                         expected=f"{len(shapes)} parameters, each once")  # fmt: skip


def take_state(state: Arrays) -> dict[str, np.ndarray]:
    """Copies of the other arrays of a training.

    Raises:
        UsageError: one has a name or a type that the file cannot hold.
    """
    taken = {name: copied(x) for name, x in state.items()}
    types = tuple(ARRAYS.values())
    wrong = [f"{name} {x.dtype}" for name, x in taken.items() if x.dtype not in types or not _is_name(name)]
    if wrong:
        raise UsageError("arrays of the snapshot cannot be stored", got=some(wrong),
                         expected="plain names, and types of " + ", ".join(map(str, types)))  # fmt: skip
    return taken


def specs_of(arrays: Arrays) -> Specs:
    """Name → safetensors' code and shape."""
    if isinstance(arrays, Pieces):  # which need not be read for it
        return arrays.specs
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


def copied(x: np.ndarray) -> np.ndarray:
    """An array of its own: asnumpy()'s is the parameter's own memory, which the next step changes."""
    return np.array(x, order="C", copy=True)


def _is_name(name: str) -> bool:
    return name != RESERVED and name == name.encode("utf-8", "replace").decode()
