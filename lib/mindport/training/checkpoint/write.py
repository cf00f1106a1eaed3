"""A snapshot → a directory that is whole or absent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mindport
from mindport.config import ModelConfig
from mindport.errors import UsageError
from mindport.files import atomic_directory, sha256
from mindport.training.checkpoint.arrays import specs_of, take_state, take_weights, write_files
from mindport.training.checkpoint.origin import DTYPE, Origin
from mindport.training.checkpoint.record import Record, as_json, here, measured, write_record
from mindport.training.checkpoint.snapshot import About, Arrays, Snapshot
from mindport.weights.manifest import Manifest, write_manifest
from mindport.weights.safetensors_io import make_header
from mindport.weights.writers import FileLayout, new_layout

STATE = "training.safetensors"


@dataclass(frozen=True)
class Taken:
    """A snapshot in memory of its own, which the training does not touch: one more copy of weights and state."""

    step: int
    loss: float | None
    weights: Arrays
    state: Arrays
    about: About


def check_step(snapshot: Snapshot) -> None:
    """Hold a snapshot's step to what it is.

    Raises:
        UsageError: it is no number of steps.
    """
    if type(snapshot.step) is not int or snapshot.step < 0:
        raise UsageError("a snapshot is of a number of steps", got=snapshot.step, expected="0 or more")


def take(snapshot: Snapshot, loss: float | None, model: ModelConfig) -> Taken:
    """Copy a snapshot.

    Raises:
        UsageError: it is not this model's, or cannot be stored.
    """
    weights, state = take_weights(snapshot.weights, model), take_state(snapshot.state)
    return Taken(snapshot.step, measured(loss), weights, state, as_json(snapshot.about))


def write_checkpoint(path: Path, taken: Taken, origin: Origin) -> None:
    """Write a checkpoint; it appears with its last byte on the disk, or not at all.

    Raises:
        FileError: the disk refuses, or something is there already.
    """
    with atomic_directory(path) as aside:
        fill(aside, taken, origin, here())


def fill(aside: Path, taken: Taken, origin: Origin, versions: dict[str, str]) -> None:
    """Write the files of a whole checkpoint; `versions` are of what computed it."""
    files = write_files(aside, new_layout(specs_of(taken.weights), {"format": "np"}), taken.weights)
    origin.copy_files(aside)
    write_manifest(aside, manifest_of(origin, files, taken.step))
    files |= write_files(aside, FileLayout({STATE: make_header(specs_of(taken.state), {})}), taken.state)
    files |= told_of(path for path in aside.iterdir() if path.name not in files)
    write_record(aside, Record(taken.step, taken.loss, taken.about, files, versions))


def told_of(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """File → its SHA-256 and its size."""
    return {path.name: {"sha256": sha256(path), "bytes": path.stat().st_size} for path in paths}


def manifest_of(origin: Origin, files: Mapping[str, dict[str, Any]], step: int) -> Manifest:
    """The manifest of a checkpoint whose weights lie in these files."""
    before = origin.manifest
    model = replace(before.model, dtype=DTYPE)
    return replace(before, model=model, dtype=DTYPE, files=dict(files), accounting={}, mindport=mindport.__version__,
                   steps=before.steps + step)  # fmt: skip
