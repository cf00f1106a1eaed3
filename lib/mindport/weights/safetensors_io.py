"""The safetensors format, one tensor at a time.

    8 bytes: n, little-endian │ n bytes: JSON header, padded with spaces │ the tensors' bytes, back to back

The library's NumPy interface wants all tensors of a file in memory, and one of its releases writes wrong bytes for
arrays that are not contiguous. Reading and writing at offsets needs memory for one tensor, and lets a file be
written again with the very header it came with. The tests hold both directions to the library.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from mindport.errors import FileError, some
from mindport.weights.dtypes import ARRAYS, BITS, NUMPY, begin_digest, code_of, raw
from mindport.weights.layouts import Shape

MAX_HEADER = 100_000_000  # bytes; the library's own limit
BUFFER = 1 << 20  # bytes read at a time where nothing is kept


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: precision (safetensors' code), shape, and where its bytes lie after the header."""

    dtype: str
    shape: Shape
    start: int
    end: int

    @property
    def nbytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Header:
    """A file's header: the bytes as they stand there, and what they say."""

    text: bytes
    entries: dict[str, Entry]
    metadata: dict[str, str]

    @property
    def data(self) -> int:
        """Where the tensors' bytes begin in the file."""
        return 8 + len(self.text)

    @property
    def size(self) -> int:
        """The bytes of the whole file."""
        return self.data + max((entry.end for entry in self.entries.values()), default=0)


def read_header(path: Path) -> Header:
    """The header of a file, proved against the file's size.

    Raises:
        FileError: the file is truncated, damaged, or of another format.
    """
    try:
        with open(path, "rb") as file:
            first = file.read(8)
            length = int.from_bytes(first, "little")
            text = file.read(length) if length <= MAX_HEADER else b""
        size = Path(path).stat().st_size
    except OSError as error:
        raise FileError("the file cannot be read", where=path, got=error) from None
    if first == b"version ":
        raise FileError("a Git LFS pointer, not the file itself", where=path, do="run `git lfs pull` in its repository")
    if len(first) < 8 or len(text) < length:
        _damaged(path, f"a header of {length:,} bytes in a file of {size:,}", "8 bytes of length, then the header")
    header = parse_header(text, path)
    if header.size != size:
        word = "truncated" if size < header.size else "longer than its header says"
        _damaged(path, f"{size:,} bytes ({word})", f"{header.size:,} bytes")
    return header


def parse_header(text: bytes, path: Path) -> Header:
    """What the bytes of a header say; every byte of data must belong to exactly one tensor.

    Raises:
        FileError: not a header, or offsets and shapes disagree.
    """
    try:
        fields = json.loads(text, object_pairs_hook=_unique)
        metadata = _metadata(fields.pop("__metadata__", None))
        entries = {name: _entry(name, value) for name, value in fields.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        _damaged(path, error, "a header that names each tensor once, with dtype, shape and data_offsets")
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != end:
            _damaged(path, f"{name} begins at byte {entry.start}", f"byte {end}: tensors lie back to back")
        end = entry.end
    return Header(text, entries, metadata)


def make_header(tensors: Mapping[str, tuple[str, Shape]], metadata: Mapping[str, str]) -> Header:
    """A header for new tensors, name → (dtype, shape), in the order that the library gives them.

    That order is the widest precision first, then by name, so that every tensor is aligned.
    """
    order = sorted(tensors, key=lambda name: (-BITS[tensors[name][0]], tensors[name][0], name))
    fields: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    entries, end = {}, 0
    for name in order:
        dtype, shape = tensors[name]
        start, end = end, end + math.prod(shape) * BITS[dtype] // 8
        entries[name] = Entry(dtype, shape, start, end)
        fields[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    return Header(text + b" " * (-len(text) % 8), entries, dict(metadata))


def read_tensor(path: Path, header: Header, name: str, dtypes: Mapping[str, np.dtype[Any]] = NUMPY) -> np.ndarray:
    """One tensor of a file, in memory of its own; `dtypes` are those that are expected there.

    Raises:
        FileError: the file ends before the tensor does, or cannot be read.
    """
    entry = header.entries[name]
    try:
        data = np.fromfile(path, np.uint8, entry.nbytes, offset=header.data + entry.start)
    except OSError as error:
        raise FileError("the file cannot be read", where=path, got=error) from None
    if data.size != entry.nbytes:
        _damaged(path, f"{data.size:,} bytes of {name}", f"{entry.nbytes:,}")
    if entry.dtype not in dtypes:
        raise FileError("a tensor of a precision that is not read", where=path, got=f"{name} {entry.dtype}",
                        expected=", ".join(dtypes))  # fmt: skip
    return data.view(dtypes[entry.dtype]).reshape(entry.shape)


def fingerprint(path: Path) -> tuple[str, dict[str, str]]:
    """SHA-256 of a whole file and the digest of each tensor, in one pass over the disk and a small buffer."""
    header = read_header(path)
    whole = hashlib.sha256(len(header.text).to_bytes(8, "little") + header.text)
    tensors, buffer = {}, memoryview(bytearray(BUFFER))
    with open(path, "rb", buffering=0) as file:
        file.seek(header.data)
        for name, entry in sorted(header.entries.items(), key=lambda item: item[1].start):
            state, left = begin_digest(ARRAYS[entry.dtype], entry.shape), entry.nbytes
            while left and (got := file.readinto(buffer[: min(left, BUFFER)])):
                whole.update(buffer[:got])
                state.update(buffer[:got])
                left -= got
            if left:
                _damaged(path, f"{left:,} bytes of {name} are missing", f"{entry.nbytes:,}")
            tensors[name] = state.hexdigest()
    return whole.hexdigest(), tensors


class Writer:
    """Writes one file under a header that is known beforehand, tensors in any order, each exactly once."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self.header, self.left = path, header, set(header.entries)
        self.file = open(path, "xb")
        self.file.write(len(header.text).to_bytes(8, "little") + header.text)
        self.file.truncate(header.size)

    def write(self, name: str, x: np.ndarray) -> None:
        """Put one tensor in its place."""
        entry = self.header.entries[name]
        assert (code_of(x), x.shape) == (entry.dtype, entry.shape), f"{name}: {x.dtype} {x.shape} for {entry}"
        self.left.remove(name)
        self.file.seek(self.header.data + entry.start)
        self.file.write(raw(x).data)

    def close(self, *, complete: bool = True) -> None:
        """Close the file; a tensor that was promised and not written is an error of this program."""
        self.file.close()
        assert not (complete and self.left), f"{self.path.name}: not written: {some(sorted(self.left))}"


def _metadata(value: Any) -> dict[str, str]:
    """Texts by name, as the library demands; null is none."""
    found = {} if value is None else value
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError(f"__metadata__ of texts, not {str(value)[:80]}")
    return found


def _entry(name: str, value: Any) -> Entry:
    shape, (start, end) = tuple(value["shape"]), value["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
        raise ValueError(f"{name}: shape {list(shape)}, offsets {[start, end]}")
    bits = BITS.get(value["dtype"])
    if end < start or (bits and math.prod(shape) * bits != (end - start) * 8):
        raise ValueError(f"{name}: {end - start} bytes for {value['dtype']} {list(shape)}")
    return Entry(value["dtype"], shape, start, end)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(names := dict(pairs)) != len(pairs):
        raise ValueError("a name stands there twice")
    return names


def _damaged(path: Path, got: object, expected: str) -> NoReturn:
    raise FileError(
        "the file is damaged, incomplete, or not safetensors", where=path, got=got, expected=expected,
        do="download or save it again",
    )  # fmt: skip
