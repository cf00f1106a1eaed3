"""A trace: what one model computed on one input, as a directory that any machine can read.

    trace.json            who made it and how, of which files, the shape and dtype of every array; its own digest
    arrays.safetensors    the arrays; equal ones are stored once, and bfloat16 as its bits in uint16

Names of arrays:

    ids                   (B, T) the tokens
    in/<path>             what the module was given
    out/<path>            what it made in the whole model
    local/<path>          what it made of the *reference's* input (our traces only)
    back/<path>           the gradient of the loss by what it made (the user's own modules: `mindport.tracing`)
    grad/<parameter>      the gradient of one layer; grad/input for the layer's input; of the loss, in the user's own
    loss                  the scalar (the user's own)
    greedy                (B, n) the tokens that the model wrote after a prompt

A reference also knows better than float32. `exact` is the same array when the step was done in float64: a module
on the same float32 input, or (for out/logits and the layers, under `far/<path>`, and for all that a user's own module
makes) the whole model. It is stored as what the value missed, in float32: two halves that together hold some 14 digits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mindport.errors import FileError
from mindport.files import atomic_directory, check_replaceable, read_json, sha256, write_json

MAGIC = "mindport-trace"
VERSION = 2
MANIFEST, ARRAYS = "trace.json", "arrays.safetensors"
MADE_BY = "mindport trace DIR --out TRACE"  # or FILE.py:FUNCTION in the place of DIR
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)  # by name, NumPy may know it as another library's
TRAINING = "training"  # the folder of a trace in which that of a training may lie
TRAINED_BY = f"python -m mindport.parity.reference_training --model DIR --out TRACE/{TRAINING} --steps N"


@dataclass
class Trace:
    """Named arrays and what is known about them.

    Attributes:
        about: the manifest without its list of arrays.
        arrays: name to array.
        missed: name to what the array missed of the exact value, same shape.
    """

    about: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    missed: dict[str, np.ndarray] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            raise FileError("the trace has no such array", where=name, do=f"make a trace with this version: {MADE_BY}")
        return self.arrays[name]

    def add(self, name: str, value: np.ndarray, exact: np.ndarray | None = None) -> None:
        """Keep `value`, and with it the exact value when there is one."""
        self.arrays[name] = value
        if exact is not None:
            with np.errstate(over="ignore"):  # a mask of the least float64 is -inf in float32
                self.missed[name] = (exact - value).astype(np.float32)

    def exact(self, name: str) -> np.ndarray | None:
        """The float64 value of an array, None when it is not known."""
        return self[name].astype(np.float64) + self.missed[name] if name in self.missed else None


def write_trace(trace: Trace, path: Path, *, overwrite: bool = False) -> Path:
    """Write a trace as a directory, whole or not at all.

    Raises:
        FileError: `path` is there already, and `overwrite` is false or it is no trace.
    """
    from safetensors.numpy import save_file

    if overwrite:
        check_replaceable(Path(path), MANIFEST)
    named = {**trace.arrays, **{f"missed/{name}": array for name, array in trace.missed.items()}}
    index, stored = _share(named)
    with atomic_directory(path, overwrite=overwrite) as aside:
        save_file(stored, aside / ARRAYS)
        files = {ARRAYS: {"sha256": sha256(aside / ARRAYS), "bytes": (aside / ARRAYS).stat().st_size}}
        manifest = {"format": MAGIC, "version": VERSION, **trace.about, "files": files, "arrays": index}
        write_json(aside / MANIFEST, {**manifest, "digest": _own_digest(manifest)})
    return Path(path)


def read_trace(path: Path) -> Trace:
    """Read a trace; no framework is needed.

    Raises:
        FileError: it is missing, of another version, damaged, or no trace at all.
    """
    path = Path(path)
    manifest = _manifest(path)
    try:
        _undamaged(path, manifest)
        stored = _load(path / ARRAYS)
        named = {name: _stored(path, stored, name, entry) for name, entry in manifest.pop("arrays").items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError("the trace's manifest is damaged", where=path, got=repr(error), do=f"run: {MADE_BY}") from None
    missed = {name.removeprefix("missed/"): array for name, array in named.items() if name.startswith("missed/")}
    arrays = {name: array for name, array in named.items() if not name.startswith("missed/")}
    if odd := [name for name, array in missed.items() if name not in arrays or arrays[name].shape != array.shape]:
        raise FileError(
            "an exact value belongs to no array of its shape", where=f"{path}: {odd[0]}", do=f"run: {MADE_BY}"
        )
    return Trace(manifest, arrays, missed)


def digest(value: Mapping[str, Any]) -> str:
    """The SHA-256 of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _own_digest(manifest: Mapping[str, Any]) -> str:
    """The digest of all that a manifest says, as it will be read."""
    return digest(json.loads(json.dumps(manifest)))


def _share(named: Mapping[str, np.ndarray]) -> tuple[dict[str, dict[str, Any]], dict[str, np.ndarray]]:
    """Each name's entry, and the arrays to store: one for all names with the same content."""
    index, stored, seen = {}, {}, {}
    for name, array in named.items():
        array = np.asarray(array, order="C")
        bits = array.view(np.uint16) if array.dtype == BFLOAT16 else array
        key = (hashlib.sha256(bits).digest(), bits.shape, bits.dtype.str)
        at = seen.setdefault(key, name)
        if at == name:
            stored[name] = bits
        index[name] = {"at": at, "shape": list(array.shape), "dtype": str(array.dtype)}
    return index, stored


def _manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != MAGIC:
        raise FileError(
            "this is not a trace", where=path / MANIFEST, expected=f'"format": "{MAGIC}"', do=f"run: {MADE_BY}"
        )
    if manifest.get("version") != VERSION:
        raise FileError(
            "the trace has another format version",
            where=path / MANIFEST,
            got=manifest.get("version"),
            expected=VERSION,
            do=f"make it again: {MADE_BY}",
        )
    said = manifest.pop("digest", None)
    if said != (got := _own_digest(manifest)):
        raise FileError("the trace is damaged: its manifest was changed", where=path / MANIFEST, got=got, expected=said,
                        do=f"copy it again, or run: {MADE_BY}")  # fmt: skip
    return manifest


def _undamaged(path: Path, manifest: Mapping[str, Any]) -> None:
    expected, file = manifest["files"][ARRAYS]["sha256"], path / ARRAYS
    if not file.is_file():
        raise FileError("a file of the trace is missing", where=file, do=f"copy it, or make it again: {MADE_BY}")
    if (got := sha256(file)) != expected:
        raise FileError(
            "the trace is damaged", where=file, got=got, expected=expected, do=f"copy it again, or run: {MADE_BY}"
        )


def _load(file: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(file)
    except (SafetensorError, KeyError, ValueError) as error:
        raise FileError("the arrays cannot be read", where=file, got=error, do=f"run: {MADE_BY}") from None


def _stored(path: Path, stored: Mapping[str, np.ndarray], name: str, entry: Mapping[str, Any]) -> np.ndarray:
    array = stored.get(entry["at"])
    if array is not None and entry["dtype"] == str(BFLOAT16) and array.dtype == np.uint16:
        array = array.view(BFLOAT16)
    if array is None or list(array.shape) != entry["shape"] or str(array.dtype) != entry["dtype"]:
        got = None if array is None else f"{array.dtype} {array.shape}"
        raise FileError(
            "manifest and arrays disagree", where=f"{path}: {name}", got=got, expected=entry, do=f"run: {MADE_BY}"
        )
    return array
