"""Files that are either whole or absent: written aside, flushed to the disk, then renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindport.errors import FileError


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, on any error it vanishes."""
    path = Path(path)
    with _write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        aside = Path(name)
        try:
            yield aside
            aside.chmod(0o666 & ~_umask())  # mkstemp makes it private; a result is shared
            _flush(aside)
            aside.replace(path)
            _flush(path.parent)
        finally:
            aside.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_directory(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary directory beside `path`; on success it becomes `path`, on any error it vanishes.

    Raises:
        FileError: `path` is there already and `overwrite` is false, or the disk refuses.
    """
    path = Path(path)
    if path.exists() and not path.is_dir() and overwrite:
        raise FileError("the target is not a directory", where=path, do="name another one, or remove the file")
    if path.exists() and not overwrite and (not path.is_dir() or any(path.iterdir())):
        raise FileError(
            "the target is there already",
            where=path,
            do="name another directory, remove it, or pass --overwrite",
        )
    with _write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
        try:
            yield aside
            aside.chmod(0o777 & ~_umask())
            for file in aside.rglob("*"):
                _flush(file)
            _flush(aside)
            _swap(aside, path)
            _flush(path.parent)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def write_text(path: Path, text: str) -> Path:
    """Write `text` to `path`, whole or not at all."""
    with atomic_file(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return Path(path)


def write_json(path: Path, value: Any) -> Path:
    """Write `value` as indented JSON to `path`, whole or not at all; NaN is refused."""
    return write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        FileError: it is missing, not UTF-8, or not JSON (with line and column).
    """
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError("the file is missing", where=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError("the file cannot be read", where=path, got=error) from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileError("the file is not valid JSON", where=path, got=error) from None


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        FileError: it is missing, or cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise FileError("the file cannot be read", where=path, got=error) from None
    return digest.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _swap(aside: Path, path: Path) -> None:
    """Put `aside` in the place of `path`; an older directory is moved away first, and back if that fails."""
    if not path.exists():
        aside.replace(path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
    path.replace(old)
    try:
        aside.replace(path)
    except OSError:
        old.replace(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _is_about(named: Path, target: Path) -> bool:
    """Whether a file stands on the way to `target`, or beside it, where it is written aside."""
    return named in target.parents or target.parent in named.parents


@contextlib.contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Say a full disk or a read-only place as one FileError with the path."""
    try:
        yield
    except OSError as error:
        named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else path
        if not _is_about(named.absolute(), path.absolute()):  # a file that was read, not the one being written
            raise FileError("a file cannot be used; nothing was written", where=named, got=error) from error
        raise FileError("writing failed, nothing was kept", where=path, got=error) from error
