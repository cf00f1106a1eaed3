"""Arrow files as `datasets.save_to_disk` writes them, read in place, a record batch at a time.

`datasets` itself would import PyTorch (and pandas) into the process, which must not meet MindSpore.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindport.errors import FileError


def batch_sizes(path: Path) -> Iterator[tuple[int, int]]:
    """Rows and bytes of each record batch."""
    with _opened(path) as reader:
        for batch in reader:
            yield batch.num_rows, batch.nbytes


def read_columns(path: Path, names: tuple[str, ...], start: int, end: int) -> Iterator[tuple[Any, ...]]:
    """The rows of record batches `start` to `end`, as Python values of the named columns.

    Raises:
        FileError: a column is missing, or the file is damaged.
    """
    with _opened(path) as reader:
        if missing := [name for name in names if name not in reader.schema.names]:
            raise FileError("the dataset has no such column", where=path, got=", ".join(reader.schema.names),
                            expected=", ".join(missing), do="name the column of the text: data.column")  # fmt: skip
        for index, batch in enumerate(reader):
            if index >= end:
                return
            if index >= start:
                yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as reader:
            yield reader
    except (OSError, pa.ArrowException) as error:
        raise FileError("the dataset's file cannot be read", where=path, got=error, do="save it again") from None
