"""Rows to MindRecord files.

    row      int64: the row's number among those of its split and length, which the reader checks
    tokens   bytes: int32 (T,), an id where the token counts, ~id where it does not

Bytes, since MindRecord packs an int32 array value by value: only bytes can be read in place (`record_reader`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mindport.errors import FileError

SCHEMA = {"row": {"type": "int64"}, "tokens": {"type": "bytes"}}
FILE_BYTES = 1 << 28  # of a file's rows
BLOCK = 1024  # rows handed over at once
HEADER = 1 << 18
PAGE = 1 << 20


class RecordWriter:
    """Writes the rows of one split and length, in files of `FILE_BYTES`.

    Args:
        directory: where.
        split: goes into the names.
        length: of a row.
        file_bytes: after which a new file begins.
    """

    def __init__(self, directory: Path, split: str, length: int, file_bytes: int = FILE_BYTES) -> None:
        self.directory, self.split, self.length = directory, split, length
        self.rows_per_file = max(1, file_bytes // (4 * length))
        self.files: list[str] = []
        self.written = 0
        self.writer: Any = None
        self.waiting: list[np.ndarray] = []

    def add(self, rows: np.ndarray) -> None:
        """Append int32 (n, length) rows.

        Raises:
            FileError: the disk refuses.
        """
        self.waiting.append(rows)
        if sum(map(len, self.waiting)) >= BLOCK:
            with _refusal(self.directory):
                self._flush()

    def close(self) -> list[str]:
        """Write what waits; the names of the files, in order.

        Raises:
            FileError: the disk refuses.
        """
        with _refusal(self.directory):
            self._flush()
            self._end_file()
        return self.files

    def _flush(self) -> None:
        for rows in self.waiting:
            for block in self._blocks(rows):
                records = [{"row": row, "tokens": line.tobytes()} for row, line in enumerate(block, self.written)]
                self.writer.write_raw_data(records)
                self.written += len(block)
        self.waiting = []

    def _blocks(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Pieces of rows that fit into the file that is open when they are taken."""
        start = 0
        while start < len(rows):
            room = self.rows_per_file - self.written % self.rows_per_file
            if self.written % self.rows_per_file == 0:
                self._end_file()
                self._begin_file()
            size = min(room, BLOCK, len(rows) - start)
            yield np.ascontiguousarray(rows[start : start + size], "<i4")
            start += size

    def _begin_file(self) -> None:
        from mindspore.mindrecord import FileWriter

        name = f"{self.split}-{self.length}-{len(self.files):05d}.mindrecord"
        self.writer = FileWriter(str(self.directory / name), shard_num=1, overwrite=True)
        self.writer.set_header_size(HEADER)  # as given, a file of one row would have 50 MB
        self.writer.set_page_size(max(PAGE, 1 << (8 * 4 * self.length).bit_length()))
        self.writer.add_schema(SCHEMA, "rows of tokens")
        self.files.append(name)

    def _end_file(self) -> None:
        if self.writer is not None:
            self.writer.commit()
            self.writer = None


@contextlib.contextmanager
def _refusal(directory: Path) -> Iterator[None]:
    """What MindSpore raises for a full disk, or one that may not be written to, as an error of ours."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        said = [line.strip() for line in str(error).splitlines() if line.startswith("[ERROR]")]
        raise FileError("the rows cannot be written", where=directory, got=" ".join(said) or error,
                        do="free the disk, or name another place (data.directory); what is tokenised is kept",
                        ) from None  # fmt: skip
