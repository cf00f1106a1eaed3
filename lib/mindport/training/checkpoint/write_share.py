"""A snapshot of several processes → one directory that is whole or absent: each writes its share, the first seals.

every rank    take a copy ── shard-01-of-02.safetensors, fsync, read again ── rank-00001.json ── wait for the end
the first                      … all of them are there ── do the shares make the whole? ── training.json ── rename
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mindport.config import schema
from mindport.errors import FileError, UsageError, some
from mindport.files import put_in_place, write_errors
from mindport.training.checkpoint import boxes
from mindport.training.checkpoint.arrays import specs_of, write_files
from mindport.training.checkpoint.origin import Origin
from mindport.training.checkpoint.pieces import Held
from mindport.training.checkpoint.record import Record, here, write_record
from mindport.training.checkpoint.rendezvous import Rendezvous
from mindport.training.checkpoint.shares import Share, take_share
from mindport.training.checkpoint.snapshot import Snapshot
from mindport.training.checkpoint.write import Taken, manifest_of, told_of
from mindport.weights.manifest import write_manifest
from mindport.weights.safetensors_io import make_header
from mindport.weights.writers import FileLayout

Said = dict[str, Any]


class ShareWriter:
    """One process's part in one checkpoint.

    Args:
        path: where the checkpoint will be.
        origin: what all checkpoints have in common.
        share: of this process.
        number: of this save in this training; the same in all processes.
    """

    def __init__(self, path: Path, origin: Origin, share: Share, number: int) -> None:
        self.path, self.origin, self.share = path, origin, share
        aside = path.with_name(f".{path.name}.{share.job}-{number}.part")
        self.meeting = Rendezvous(aside, share.rank, share.size, share.patience)

    def take(self, snapshot: Snapshot, loss: float | None) -> tuple[Taken, dict[str, Held]]:
        """As `take_share`; what is wrong is told to the others as well."""
        try:
            return take_share(snapshot, loss, self.origin.model, self.share)
        except UsageError as error:
            with write_errors(self.path), self.meeting:
                self.meeting.refuse(error)
            raise

    def write(self, taken: Taken, held: Mapping[str, Held]) -> None:
        """Write the share, and return when the checkpoint is in its place.

        Raises:
            FileError: the disk of any of the processes refuses, or one of them does not come; nothing is left.
        """
        with write_errors(self.path), self.meeting:
            try:
                self._write_and_seal(taken, held)
            except BaseException as error:
                self._own().unlink(missing_ok=True)  # makes room to say so on a full disk
                self.meeting.refuse(error)
                raise
            self._wait()

    def _write_and_seal(self, taken: Taken, held: Mapping[str, Held]) -> None:
        with write_errors(self.path):  # in words that the others are told
            self.meeting.tell(self._write_own(taken, held))
            if self.share.is_first:
                self._seal(taken)
                self.meeting.end()

    def _own(self) -> Path:
        return self.meeting.whole / self.share.file

    def _write_own(self, taken: Taken, held: Mapping[str, Held]) -> Said:
        arrays = {**taken.weights, **taken.state}
        if not arrays and not self.share.is_first:
            return {"files": {}, "arrays": {}}
        header = make_header(specs_of(arrays), {})
        files = write_files(self.meeting.whole, FileLayout({self.share.file: header}), arrays)
        return {"files": files, "arrays": {name: as_json(one) for name, one in held.items()}}

    def _wait(self) -> None:
        try:
            self.meeting.wait()
        except FileError:
            self._own().unlink(missing_ok=True)
            raise

    def _seal(self, taken: Taken) -> None:
        said = self.meeting.gather()
        whole, shards = self.meeting.whole, {file: told for one in said for file, told in one["files"].items()}
        for file, told in shards.items():
            if not (whole / file).is_file() or (whole / file).stat().st_size != told["bytes"]:
                raise FileError("a share is not where its process wrote it", where=whole / file,
                                do="let all processes write to one disk that they share")  # fmt: skip
        held = merged([one["arrays"] for one in said])
        check_tiles(held, self.origin, self.path)
        self.origin.copy_files(whole)
        write_manifest(whole, manifest_of(self.origin, shards, taken.step))
        files = shards | told_of(path for path in whole.iterdir() if path.name not in shards)
        arrays = {name: as_json(one) for name, one in held.items()}
        write_record(whole, Record(taken.step, taken.loss, taken.about, files, here(), self.share.layout, arrays))
        put_in_place(whole, self.path)


def as_json(held: Held) -> dict[str, Any]:
    """As a record says where an array lies."""
    parts = {file: boxes.written(box) for file, box in held.parts.items()}
    return {"dtype": held.dtype, "shape": list(held.shape), "parts": parts}


def from_json(value: Mapping[str, Any]) -> Held:
    """Of what `as_json` gave.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    parts = {file: boxes.read(box) for file, box in value["parts"].items()}
    return Held(value["dtype"], tuple(value["shape"]), parts)


def merged(said: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Held]:
    """What several processes say of their arrays, as one table.

    Raises:
        FileError: two say that an array has different shapes or precisions.
    """
    found: dict[str, Held] = {}
    for arrays in said:
        for name, value in arrays.items():
            one = from_json(value)
            before = found.setdefault(name, one)
            if (before.dtype, before.shape) != (one.dtype, one.shape):
                raise FileError("processes disagree on an array of the checkpoint", where=name,
                                got=f"{one.dtype} {list(one.shape)}", expected=f"{before.dtype} {list(before.shape)}",
                                do="start all of them with the same configuration")  # fmt: skip
            found[name] = Held(one.dtype, one.shape, {**before.parts, **one.parts})
    return found


def check_tiles(held: Mapping[str, Held], origin: Origin, where: Path) -> None:
    """Hold the shares to what they are to make.

    Raises:
        FileError: an array has a hole, or an element twice, or a weight is missing.
    """
    torn = [name for name, one in held.items() if not boxes.tiles(one.parts.values(), one.shape)]
    torn += [name for name in schema.shapes(origin.model) if name not in held]
    if torn:
        raise FileError("the shares of the processes do not make whole arrays", where=where, got=some(torn),
                        expected="every element in one share",
                        do="start all processes with the same layout")  # fmt: skip
