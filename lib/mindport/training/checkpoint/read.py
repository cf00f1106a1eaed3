"""A checkpoint opened: nothing is believed that its digests do not prove."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.config import ModelConfig, schema
from mindport.errors import FileError, MappingError, some
from mindport.files import sha256
from mindport.ranks import Ranks
from mindport.training.checkpoint import boxes
from mindport.training.checkpoint.boxes import Box
from mindport.training.checkpoint.pieces import Held, OnDisk, Pieces, open_files
from mindport.training.checkpoint.record import NAME, Record, read_record
from mindport.training.checkpoint.shares import cut
from mindport.training.checkpoint.snapshot import About
from mindport.training.checkpoint.write import STATE
from mindport.training.checkpoint.write_share import from_json
from mindport.weights.manifest import Manifest, read_manifest
from mindport.weights.read_back import THREADS
from mindport.weights.safetensors_io import Header, read_header
from mindport.weights.store import open_converted

EARLIER = "resume from an earlier checkpoint"


@dataclass(frozen=True)
class Saved:
    """A whole checkpoint, in whatever pieces it lies; values are read when asked for.

    Attributes:
        path: the directory.
        record: what training.json says.
        manifest: what mindport.json says.
        weights: hub name → float32.
        state: the other arrays.
    """

    path: Path
    record: Record
    manifest: Manifest
    weights: Pieces
    state: Pieces

    @property
    def step(self) -> int:
        return self.record.step

    @property
    def loss(self) -> float | None:
        """On held-out text, when it was saved; None where that was not measured."""
        return self.record.loss

    @property
    def about(self) -> About:
        return self.record.about

    @property
    def model(self) -> ModelConfig:
        return self.manifest.model

    def part(self, name: str, part: Box) -> np.ndarray:
        """A part of a weight, or of an array of the state, of which no more is read.

        Raises:
            KeyError: there is no such array.
            UsageError: it has no such part.
        """
        return (self.weights if name in self.weights else self.state).part(name, part)

    def share(self, name: str, ranks: Ranks) -> np.ndarray:
        """What one process of a training needs of an array, whatever the layout that wrote it.

        Args:
            name: of a weight, or of an array of the state, which is cut as its weight is.
            ranks: which process.
        """
        return self.part(name, cut(name, self.model, ranks) or ())

    def source(self, name: str, shape: tuple[int, ...]) -> OnDisk:
        """Where a model's parameters come from, each read when its parameter is made, and no more than its part."""
        return OnDisk(self.weights, name)


def read_checkpoint(path: Path | str) -> Saved:
    """Open a checkpoint and read every file of it once, to compare it with its digest.

    Raises:
        FileError: a file is missing, torn, edited, or of another format.
        MappingError: the weights do not make the model of the manifest.
    """
    path = Path(path)
    record = read_record(path)
    _check_sizes(path, record)
    with ThreadPoolExecutor(THREADS, "mindport-digest") as pool:
        found = dict(zip(record.files, pool.map(lambda name: sha256(path / name), record.files), strict=True))
    for name, known in record.files.items():
        if found[name] != known["sha256"]:
            raise FileError("a file of the checkpoint was edited, or is damaged", where=path / name,
                            got=f"sha256 {found[name]}", expected=known["sha256"], do=EARLIER)  # fmt: skip
    return (_open_shards if record.is_sharded else _open_whole)(path, record)


def _open_whole(path: Path, record: Record) -> Saved:
    weights = open_converted(path, check=False)
    arrays = open_files(path, weights.manifest.files)
    return Saved(path, record, weights.manifest, arrays.only(weights), open_files(path, [STATE]))


def _open_shards(path: Path, record: Record) -> Saved:
    manifest = read_manifest(path)
    headers = {file: read_header(path / file) for file in manifest.files}
    held = _held(path, record)
    if wrong := [name for name, one in held.items() if not _lies(name, one, headers)]:
        raise FileError("the shards do not hold what the record says", where=path, got=some(wrong), do=EARLIER)
    shapes = schema.shapes(manifest.model)
    wrong = [name for name, shape in shapes.items()
             if name not in held or (held[name].shape, held[name].dtype) != (shape, "F32")]  # fmt: skip
    if wrong:
        raise MappingError("the weights do not make the model of the manifest", where=path, got=some(wrong),
                           expected=f"{len(shapes)} parameters in float32", do=EARLIER)  # fmt: skip
    arrays = Pieces(path, held, headers)
    return Saved(path, record, manifest, arrays.only(shapes), arrays.only(held.keys() - shapes.keys()))


def _held(path: Path, record: Record) -> dict[str, Held]:
    try:
        return {name: from_json(value) for name, value in record.arrays.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise FileError("the checkpoint's record does not say where its arrays lie", where=path / NAME, got=error,
                        do=EARLIER) from None  # fmt: skip


def _lies(name: str, held: Held, headers: Mapping[str, Header]) -> bool:
    """Whether the files have these parts, and the parts make the whole."""
    for file, box in held.parts.items():
        entry = headers[file].entries.get(name) if file in headers else None
        if entry is None or (entry.dtype, entry.shape) != (held.dtype, boxes.shape_of(box)):
            return False
    return boxes.tiles(held.parts.values(), held.shape)


def _check_sizes(path: Path, record: Record) -> None:
    """What can be said before anything large is read."""
    needed = () if record.is_sharded else (STATE,)
    if missing := [name for name in (*needed, *record.files) if not (path / name).is_file()]:
        raise FileError("files of the checkpoint are missing", where=path, got=some(missing),
                        expected=f"those that {NAME} names", do=EARLIER)  # fmt: skip
    for name, known in record.files.items():
        if (size := (path / name).stat().st_size) != known["bytes"]:
            raise FileError("a file of the checkpoint is torn", where=path / name, got=f"{size:,} bytes",
                            expected=f"{known['bytes']:,} bytes", do=EARLIER)  # fmt: skip
