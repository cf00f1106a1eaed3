"""A snapshot → a directory that is whole or absent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import mindport
from mindport.config import ModelConfig
from mindport.files import atomic_directory, sha256
from mindport.training.checkpoint.arrays import specs_of, take_state, take_weights, write_arrays
from mindport.training.checkpoint.origin import DTYPE, Origin
from mindport.training.checkpoint.record import Record, check_plain, here, measured, write_record
from mindport.training.checkpoint.snapshot import About, Snapshot
from mindport.weights.dtypes import digest
from mindport.weights.manifest import Manifest, write_manifest
from mindport.weights.read_back import read_back
from mindport.weights.writers import SafetensorsFiles, new_layout

STATE = "training.safetensors"


@dataclass(frozen=True)
class Taken:
    """A snapshot in memory of its own, which the training does not touch: one more copy of weights and state."""

    step: int
    loss: float | None
    weights: dict[str, np.ndarray]
    state: dict[str, np.ndarray]
    about: About


def take(snapshot: Snapshot, loss: float | None, model: ModelConfig) -> Taken:
    """Copy a snapshot.

    Raises:
        UsageError: it is not this model's, or cannot be stored.
    """
    weights, state = take_weights(snapshot.weights, model), take_state(snapshot.state)
    return Taken(snapshot.step, measured(loss), weights, state, check_plain(snapshot.about))


def write_checkpoint(path: Path, taken: Taken, origin: Origin) -> None:
    """Write a checkpoint; it appears with its last byte on the disk, or not at all.

    Raises:
        FileError: the disk refuses, or something is there already.
    """
    with atomic_directory(path) as aside:
        files = _write_weights(aside, taken.weights)
        origin.copy_files(aside)
        write_manifest(aside, _manifest(origin, files, taken.step))
        files[STATE] = {"sha256": write_arrays(aside / STATE, taken.state), "bytes": (aside / STATE).stat().st_size}
        for file in aside.iterdir():
            if file.name not in files:
                files[file.name] = {"sha256": sha256(file), "bytes": file.stat().st_size}
        write_record(aside, Record(taken.step, taken.loss, taken.about, files, here()))


def _manifest(origin: Origin, files: dict[str, dict[str, object]], step: int) -> Manifest:
    before = origin.manifest
    return replace(before, dtype=DTYPE, files=dict(files), accounting={}, mindport=mindport.__version__,
                   steps=before.steps + step)  # fmt: skip


def _write_weights(directory: Path, weights: dict[str, np.ndarray]) -> dict[str, dict[str, object]]:
    """The model's files, as a conversion writes them; file → digest and size."""
    writer, meant, done = SafetensorsFiles(directory, new_layout(specs_of(weights), {"format": "np"})), {}, False
    try:
        for name, x in weights.items():
            writer.write(name, x)
            meant[name] = digest(x)
        done = True
    finally:
        writer.close(complete=done)
    return {file.name: {"sha256": file.sha256, "bytes": file.bytes} for file in read_back(directory, meant).files}
