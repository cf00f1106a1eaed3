"""A folder for one job: nobody's files are touched, and two jobs never share one."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

from mindport.errors import FileError
from mindport.parallel.launch.records import JOB


def claim(folder: Path) -> Path:
    """The folder itself where it is new or empty, else a numbered one in it; its path is absolute.

    Raises:
        FileError: it cannot be made.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not any(folder.iterdir()) and _is_first(folder):
            return folder
        for number in count(2):
            numbered = folder / f"{number:04d}"
            try:
                numbered.mkdir()
            except FileExistsError:
                continue
            if _is_first(numbered):
                return numbered
    except OSError as error:
        raise FileError("the folder of the logs cannot be made", where=folder, got=error.strerror,
                        do="name another one") from error  # fmt: skip
    raise AssertionError("count has no end")


def _is_first(folder: Path) -> bool:
    """Whether nobody else has claimed it at the same moment."""
    try:
        os.close(os.open(folder / JOB, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True
