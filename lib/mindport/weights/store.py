"""A converted directory opened: name → values, read when asked for."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config import ModelConfig
from mindport.config.targets import MINDSPORE, TARGETS
from mindport.errors import FileError, MappingError, UsageError, some
from mindport.files import sha256
from mindport.weights import checkpoint
from mindport.weights.dtypes import NUMPY, code_of
from mindport.weights.layouts import Shape
from mindport.weights.manifest import NAME, Manifest, read_manifest
from mindport.weights.names import natural
from mindport.weights.paths import find_shards
from mindport.weights.plan import foreign_shapes, table
from mindport.weights.readers import SafetensorsReader

SUFFIXES = (".safetensors", ".ckpt")
SHARD = "shard-"  # what the files of a checkpoint begin with that several processes wrote


class Weights(Mapping[str, np.ndarray]):
    """Name → array; each look-up reads from the disk, so keep what you need again.

    Attributes:
        directory: the converted directory.
        manifest: its mindport.json.
        specs: name → (dtype as safetensors' code, shape) of all its tensors.
    """

    def __init__(self, directory: Path, manifest: Manifest, names: Iterable[str]) -> None:
        self.directory, self.manifest = directory, manifest
        self._arrays: dict[str, np.ndarray] = {}
        if shards := find_shards(directory, "model", ".safetensors"):
            self._reader = SafetensorsReader(directory, shards)
            self.specs = {name: (info.dtype, info.shape) for name, info in self._reader.infos.items()}
        else:
            self._arrays = checkpoint.read_checkpoint(directory / checkpoint.NAME)
            self.specs = {name: (code_of(x), x.shape) for name, x in self._arrays.items()}
        self._names = dict.fromkeys(names)

    @property
    def config(self) -> ModelConfig:
        """The model that these weights make."""
        return self.manifest.model

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._names:
            raise KeyError(name)
        return self._arrays[name] if self._arrays else self._reader.read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # Mapping's own would read the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def file_of(self, name: str) -> str:
        """The file that holds a parameter."""
        return checkpoint.NAME if self._arrays else self._reader.infos[name].file

    def __len__(self) -> int:
        return len(self._names)


def load(directory: Path | str, names: Iterable[str] | None = None, check: bool = True) -> Weights:
    """Open a MindPort directory.

    Args:
        directory: what `convert` made.
        names: only these parameters; None for all of the model's.
        check: compare the files with the manifest's digests first, which reads them once.

    Returns:
        A mapping from hub name to array, in the hub's order; values are read when asked for.

    Raises:
        FileError: not a finished MindPort directory, or a file is missing or was changed.
        MappingError: a tensor is missing, unexpected, or of a wrong shape or precision.
        UsageError: `names` holds a name that the model does not have.
    """
    weights = open_converted(directory, names, check)
    if weights.manifest.target != MINDSPORE.name:
        raise FileError(f"weights under the names of {weights.manifest.target}, which our model does not have",
                        where=directory, do="convert it with --to mindspore first")  # fmt: skip
    return weights


def open_converted(directory: Path | str, names: Iterable[str] | None = None, check: bool = True) -> Weights:
    """As `load`, for a directory under any target's names, which the mapping then has."""
    directory = Path(directory)
    if any(place.name.startswith(".") and place.name.endswith(".part") for place in (directory, directory.parent)):
        raise FileError("an interrupted conversion: it may be incomplete", where=directory,
                        do="remove it and convert again")  # fmt: skip
    manifest = read_manifest(directory)
    _check_gathered(directory, manifest)
    _check_files(directory, manifest, digests=check)
    shapes, names = _shapes(manifest, directory), None if names is None else list(names)
    if foreign := [name for name in names or () if name not in shapes]:
        raise UsageError("no such parameter", where=directory, got=some(foreign), expected=some(shapes, 5))
    weights = Weights(directory, manifest, shapes if names is None else names)
    _check_tensors(weights, shapes)
    return weights


def _shapes(manifest: Manifest, where: Path) -> dict[str, Shape]:
    if manifest.target not in TARGETS:
        raise FileError("written for a target that this version does not know", where=where, got=manifest.target,
                        expected=", ".join(TARGETS), do="convert the model again")  # fmt: skip
    return foreign_shapes(table(TARGETS[manifest.target].dialect, manifest.model))


def _check_gathered(directory: Path, manifest: Manifest) -> None:
    if shards := [name for name in manifest.files if name.startswith(SHARD)]:
        raise FileError("a checkpoint in the shares of several processes, which a training reads and nothing else",
                        where=directory, got=some(shards), expected="a checkpoint that is whole",
                        do=f"put it together: mindport gather {shlex.quote(str(directory))} DST")  # fmt: skip


def _check_files(directory: Path, manifest: Manifest, *, digests: bool) -> None:
    for name, known in manifest.files.items():
        path = directory / name
        if Path(name).name != name or not path.is_file():
            raise FileError("a file of the manifest is missing", where=directory, got=name, do="convert again")
        if path.stat().st_size != known.get("bytes"):
            raise _changed(path, known)
    present = {path.name for suffix in SUFFIXES for path in directory.glob(f"model*{suffix}")}
    if present != manifest.files.keys():
        raise FileError("the manifest names other weight files than lie there", where=directory / NAME,
                        got=some(manifest.files) or "none", expected=some(sorted(present), 5) or "a weight file",
                        do="remove what does not belong there, or convert again")  # fmt: skip
    if digests:
        check_digests(directory, manifest)


def check_digests(directory: Path, manifest: Manifest) -> None:
    """Read every weight file and compare it with the manifest's digest.

    Raises:
        FileError: a file was changed, or cannot be read.
    """
    for name, known in manifest.files.items():
        if sha256(directory / name) != known.get("sha256"):
            raise _changed(directory / name, known)


def _changed(path: Path, known: Mapping[str, Any]) -> FileError:
    return FileError("a file was changed after the conversion", where=path, got="other bytes",
                     expected=f"sha256 {known.get('sha256')}", do="convert again")  # fmt: skip


def _check_tensors(weights: Weights, shapes: Mapping[str, Shape]) -> None:
    missing = sorted(shapes.keys() - weights.specs.keys(), key=natural)
    extra = sorted(weights.specs.keys() - shapes.keys(), key=natural)
    wrong = [
        f"{name} {dtype} {list(shape)}"
        for name, (dtype, shape) in weights.specs.items()
        if name in shapes and (shape != shapes[name] or dtype not in NUMPY)
    ]
    if missing or extra or wrong:
        raise MappingError(
            "the weights do not make the model of the manifest", where=weights.directory,
            got=f"missing: {some(missing)}; unexpected: {some(extra)}; of wrong shape or precision: {some(wrong)}",
            expected=f"{len(shapes)} parameters", do="convert the model again",
        )  # fmt: skip
