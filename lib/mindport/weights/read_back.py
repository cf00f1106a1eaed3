"""The proof of a conversion: every file of the result is read again and compared with what was meant."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import FileError, some
from mindport.files import flush, sha256
from mindport.weights import checkpoint
from mindport.weights.ahead import meanwhile
from mindport.weights.conversion_report import WrittenFile
from mindport.weights.dtypes import digest
from mindport.weights.manifest import Source
from mindport.weights.safetensors_io import fingerprint, read_header

THREADS = 2  # hashing leaves the interpreter to the others


@dataclass(frozen=True)
class ReadBack:
    """What stands on the disk, and is what was meant: the files, how many tensors and how many numbers."""

    files: tuple[WrittenFile, ...]
    tensors: int
    parameters: int


def read_back(directory: Path, meant: Mapping[str, str], source: Source | None = None) -> ReadBack:
    """Read the weight files of a new directory.

    Args:
        directory: where they are.
        meant: tensor → the digest that it should have.
        source: whose files these should equal, on the way back.

    Raises:
        FileError: what stands in a file is not what was meant.
    """
    paths = [path for path in sorted(directory.iterdir()) if path.suffix in (".safetensors", ".ckpt")]
    with meanwhile(lambda: list(map(flush, paths))) as flushed:
        with ThreadPoolExecutor(THREADS, "mindport-read-back") as pool:
            readings = list(pool.map(_read_file, paths))
        flushed()
    found = {name: value for _, tensors, _ in readings for name, value in tensors.items()}
    if wrong := sorted(name for name in meant.keys() | found.keys() if meant.get(name) != found.get(name)):
        raise FileError("what was written does not read back as it was meant; nothing was kept", where=directory,
                        got=some(wrong), do="check the disk and the memory, then convert again")  # fmt: skip
    files = tuple(_row(path, whole, source) for path, (whole, _, _) in zip(paths, readings, strict=True))
    return ReadBack(files, len(found), sum(numbers for _, _, numbers in readings))


def _read_file(path: Path) -> tuple[str, dict[str, str], int]:
    """SHA-256 of a weight file, the digest of each tensor, and how many numbers they are."""
    if path.name == checkpoint.NAME:
        arrays = checkpoint.read_checkpoint(path)
        return sha256(path), {name: digest(x) for name, x in arrays.items()}, sum(x.size for x in arrays.values())
    entries = read_header(path).entries.values()
    return (*fingerprint(path), sum(math.prod(entry.shape) for entry in entries))


def _row(path: Path, whole: str, source: Source | None) -> WrittenFile:
    original = source.files.get(path.name) if source else None
    return WrittenFile(path.name, whole, path.stat().st_size, None if original is None else original["sha256"] == whole)
