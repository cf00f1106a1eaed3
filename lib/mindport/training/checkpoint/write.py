"""A snapshot → a directory that is whole or absent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import mindport
from mindport.config import ModelConfig
from mindport.errors import UsageError
from mindport.files import atomic_directory, sha256
from mindport.training.checkpoint.arrays import specs_of, take_state, take_weights, write_files
from mindport.training.checkpoint.origin import DTYPE, Origin
from mindport.training.checkpoint.record import Record, as_json, here, measured, write_record
from mindport.training.checkpoint.snapshot import About, Snapshot
from mindport.weights.manifest import Manifest, write_manifest
from mindport.weights.safetensors_io import make_header
from mindport.weights.writers import FileLayout, new_layout

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
    if type(snapshot.step) is not int or snapshot.step < 0:
        raise UsageError("a snapshot is of a number of steps", got=snapshot.step, expected="0 or more")
    weights, state = take_weights(snapshot.weights, model), take_state(snapshot.state)
    return Taken(snapshot.step, measured(loss), weights, state, as_json(snapshot.about))


def write_checkpoint(path: Path, taken: Taken, origin: Origin) -> None:
    """Write a checkpoint; it appears with its last byte on the disk, or not at all.

    Raises:
        FileError: the disk refuses, or something is there already.
    """
    with atomic_directory(path) as aside:
        files = write_files(aside, new_layout(specs_of(taken.weights), {"format": "np"}), taken.weights)
        origin.copy_files(aside)
        write_manifest(aside, _manifest(origin, files, taken.step))
        files |= write_files(aside, FileLayout({STATE: make_header(specs_of(taken.state), {})}), taken.state)
        for file in aside.iterdir():
            if file.name not in files:
                files[file.name] = {"sha256": sha256(file), "bytes": file.stat().st_size}
        write_record(aside, Record(taken.step, taken.loss, taken.about, files, here()))


def _manifest(origin: Origin, files: dict[str, dict[str, Any]], step: int) -> Manifest:
    before = origin.manifest
    model = replace(before.model, dtype=DTYPE)
    return replace(before, model=model, dtype=DTYPE, files=dict(files), accounting={}, mindport=mindport.__version__,
                   steps=before.steps + step)  # fmt: skip
