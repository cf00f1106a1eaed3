"""HF → MindSpore → HF: the way back, taken, and compared with the source byte for byte."""

from __future__ import annotations

import tempfile
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import FileError
from mindport.files import sha256
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.weights.converter import convert
from mindport.weights.dtypes import digest
from mindport.weights.manifest import read_manifest
from mindport.weights.names import natural
from mindport.weights.readers import Reader, open_hf


@dataclass(frozen=True)
class RoundTrip(Result):
    """The source against what came back.

    Attributes:
        source: the Hugging Face directory.
        directory: the MindPort directory between.
        tensors: tensors of the source.
        equal: those that came back with the same precision, shape and bytes.
        different: those that did not.
        dropped: buffers that were left behind on the way in, by name.
        invented: tensors that came back and were not there.
        files: weight files of the source.
        identical: those that came back byte for byte; None where the source was no safetensors.
        bytes: size of the source's tensors.
        dtype: "keep", or the precision that the conversion brought the weights to.
    """

    source: Path
    directory: Path
    tensors: int
    equal: int
    different: tuple[str, ...]
    dropped: tuple[str, ...]
    invented: tuple[str, ...]
    files: tuple[str, ...]
    identical: tuple[str, ...] | None
    bytes: int
    dtype: str

    @property
    def ok(self) -> bool:
        tensors = self.equal + len(self.dropped) == self.tensors and not self.different and not self.invented
        files = self.identical is None or bool(self.dropped) or self.identical == self.files
        return tensors and files

    def headline(self) -> str:
        text = f"HF → MindSpore → HF: {self.equal} of {self.tensors} tensors equal byte for byte"
        if self.identical is not None:
            text += f", {len(self.identical)} of {len(self.files)} files identical"
        if self.dropped:
            text += f" ({len(self.dropped)} buffers were left behind by name: the one difference)"
        return text + ("" if self.dtype == "keep" else f"; the weights were brought to {self.dtype} in between")

    def tables(self) -> tuple[Table, ...]:
        rows = [("tensors", self.tensors), ("equal", self.equal), ("different", len(self.different)),
                ("left behind by name", len(self.dropped)), ("invented", len(self.invented)),
                ("files", len(self.files)), ("bytes of tensors", self.bytes)]  # fmt: skip
        rows += [] if self.identical is None else [("identical files", len(self.identical))]
        different = Table("Tensors that differ", ("tensor",), [(name,) for name in (*self.different, *self.invented)])
        return (Table("Round trip", ("figure", "count"), rows), *([different] if different.rows else []))

    def properties(self) -> tuple[Property, ...]:
        files = "" if self.identical is None else f", {len(self.identical)} of {len(self.files)} files"
        return (
            verdict("HF → MindSpore → HF is equal byte for byte", self.ok, "converted back, every byte compared",
                    f"{self.equal} of {self.tensors} tensors{files}", "none"),
        )  # fmt: skip


def verify_round_trip(src: Path | str, directory: Path | str, progress: bool = True) -> RoundTrip:
    """Convert a MindPort directory back, beside it and for the moment, and compare with the source.

    Args:
        src: the Hugging Face directory it came from.
        directory: the MindPort directory.
        progress: show how far it is, on stderr.

    Raises:
        FileError: a directory cannot be read, or the disk cannot hold the copy.
    """
    src, directory = Path(src), Path(directory)
    try:
        folder = tempfile.TemporaryDirectory(prefix=".round-trip.", dir=directory.resolve().parent)
    except OSError as error:
        raise FileError("no room for the way back beside the directory", where=directory, got=error) from None
    with folder as aside:
        back = Path(aside) / "huggingface"
        convert(directory, back, to="huggingface", progress=progress)
        return _compare(src, directory, open_hf(src), open_hf(back))


def _compare(src: Path, directory: Path, before: Reader, after: Reader) -> RoundTrip:
    manifest = read_manifest(directory)
    if manifest.source is None:
        raise FileError("these weights did not come from a Hugging Face directory", where=directory,
                        do="convert the directory that you compare with")  # fmt: skip
    names = before.infos.keys() - set(manifest.source.dropped)
    equal = {name for name in names & after.infos.keys() if digest(before.read(name)) == digest(after.read(name))}
    files = tuple(path.name for path in (*before.shards.files, before.shards.index) if path)
    return RoundTrip(
        source=src, directory=directory, tensors=len(before.infos), equal=len(equal),
        different=_natural(names - equal), dropped=_natural(before.infos.keys() - names),
        invented=_natural(after.infos.keys() - before.infos.keys()), files=files,
        identical=_identical(before, after, files), bytes=sum(info.nbytes for info in before.infos.values()),
        dtype=manifest.dtype,
    )  # fmt: skip


def _natural(names: Set[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=natural))


def _identical(before: Reader, after: Reader, files: tuple[str, ...]) -> tuple[str, ...] | None:
    if before.format != "safetensors":
        return None
    there = [file for file in files if (after.directory / file).exists()]
    return tuple(file for file in there if sha256(before.directory / file) == sha256(after.directory / file))
