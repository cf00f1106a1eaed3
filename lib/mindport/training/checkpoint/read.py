"""A checkpoint opened: nothing is believed that its digests do not prove."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mindport.config import ModelConfig
from mindport.errors import FileError, some
from mindport.files import sha256
from mindport.training.checkpoint.arrays import ArrayFile
from mindport.training.checkpoint.record import NAME, Record, read_record
from mindport.training.checkpoint.snapshot import About
from mindport.training.checkpoint.write import STATE
from mindport.weights.read_back import THREADS
from mindport.weights.store import Weights, open_converted

EARLIER = "resume from an earlier checkpoint"


@dataclass(frozen=True)
class Saved:
    """A whole checkpoint; values are read when asked for.

    Attributes:
        path: the directory.
        record: what training.json says.
        weights: hub name → float32.
        state: the other arrays.
    """

    path: Path
    record: Record
    weights: Weights
    state: ArrayFile

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
        return self.weights.config


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
    return Saved(path, record, open_converted(path, check=False), ArrayFile(path / STATE))


def _check_sizes(path: Path, record: Record) -> None:
    """What can be said before anything large is read."""
    if missing := [name for name in (STATE, *record.files) if not (path / name).is_file()]:
        raise FileError("files of the checkpoint are missing", where=path, got=some(missing),
                        expected=f"those that {NAME} names", do=EARLIER)  # fmt: skip
    for name, known in record.files.items():
        if (size := (path / name).stat().st_size) != known["bytes"]:
            raise FileError("a file of the checkpoint is torn", where=path / name, got=f"{size:,} bytes",
                            expected=f"{known['bytes']:,} bytes", do=EARLIER)  # fmt: skip
