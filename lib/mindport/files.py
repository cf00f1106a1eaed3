"""Files that are either whole or absent: written aside, flushed to the disk, then renamed.

    .model.x1y2.part/whole           a directory being written; it becomes `model`
    .model.x1y2.part/.mindport-part  says that it is ours; the folder is locked

The system drops the lock when the process ends: what is marked and not locked, `sweep` removes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindport.errors import FileError, UsageError

MARK = ".mindport-part"  # on which machine, and by which process
_DO = {
    errno.ENOSPC: "free some space, or name another disk",
    errno.EDQUOT: "free some space, or name another disk",
    errno.EACCES: "name a place that you may write to",
    errno.EPERM: "name a place that you may write to",
    errno.EROFS: "name a place that you may write to",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, on any error it vanishes."""
    path = Path(path)
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        aside = Path(name)
        try:
            yield aside
            aside.chmod(0o666 & ~umask())  # mkstemp makes it private; a result is shared
            flush(aside)
            aside.replace(path)
            flush(path.parent)
        finally:
            aside.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_directory(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary directory beside `path`; on success it becomes `path`, on any error it vanishes.

    A link is followed; an empty directory is as good as none.

    Raises:
        FileError: `path` is there already, or appears meanwhile, and `overwrite` is false; or the disk refuses.
    """
    path = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    with write_errors(path):
        _check_target(path, overwrite)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
        try:
            with _held(part):
                aside = part / "whole"
                aside.mkdir()
                yield aside
                put_in_place(aside, path, overwrite=overwrite)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def put_in_place(aside: Path, path: Path, *, overwrite: bool = False) -> None:
    """Let a directory that is whole become `path`, when all of it is on the disk.

    Raises:
        FileError: `path` appeared meanwhile, and `overwrite` is false.
        OSError: the disk refuses.
    """
    for file in (*aside.rglob("*"), aside):
        flush(file)
    _swap(aside, path, overwrite)
    flush(path.parent)


def sweep(path: Path) -> list[Path]:
    """Remove what `atomic_directory` left beside `path` in processes that are dead.

    What bears no mark of ours, belongs to another user or machine, or is locked, stays.

    Returns:
        The directories that were removed.
    """
    path = Path(path).resolve()
    parts = sorted(path.parent.glob(f".{glob.escape(path.name)}.*.part"))
    return [part for part in parts if _is_ours(part) and remove_free(part)]


def remove_free(part: Path) -> bool:
    """Remove a directory whose lock is free, ours or not; False when it is held, or the system refuses."""
    try:
        descriptor = os.open(part, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(part)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


@contextlib.contextmanager
def locked(path: Path, busy: str, do: str) -> Iterator[None]:
    """Hold a file for the time of the block, and say in it who does; the system lets go when the process ends.

    Where the disk knows no locks nobody is kept away, and stderr is told.

    Args:
        path: the file; it is made with its directory.
        busy: what is wrong where another process holds it.
        do: what to do then.

    Raises:
        UsageError: another process holds it.
        FileError: it cannot be made.
    """
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(descriptor, path, busy, do)
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        os.close(descriptor)


def check_apart(src: Path, dst: Path) -> None:
    """Let nothing be written into what is read, or over it.

    Raises:
        UsageError: one of the two directories is the other, or lies in it.
    """
    home, target = src.resolve(), dst.resolve()
    if target == home or target in home.parents or home in target.parents:
        raise UsageError("source and target must lie apart", got=f"{src} → {dst}", do="name another target")


def check_replaceable(path: Path, mark: str) -> None:
    """Let only an earlier result be overwritten, which has a file of the name `mark`.

    Raises:
        FileError: `path` is a directory of something else.
    """
    if path.is_dir() and any(path.iterdir()) and not (path / mark).is_file():
        raise FileError("overwriting replaces an earlier result only", where=path, got=f"a directory without {mark}",
                        do="name another target, or remove it yourself")  # fmt: skip


def check_writable(path: Path) -> None:
    """Look whether a file could be written there, before the work whose result it is for.

    Raises:
        FileError: it could not: what and where.
    """
    path = Path(path)
    with write_errors(path):
        if path.is_dir():
            raise FileError("the file cannot be written", where=path, got="a directory", do="name a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


def write_text(path: Path, text: str) -> Path:
    """Write `text` to `path`, whole or not at all."""
    with atomic_file(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return Path(path)


def write_json(path: Path, value: Any) -> Path:
    """Write `value` as indented JSON to `path`, whole or not at all; NaN is refused."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return write_text(path, text.encode("utf-8", "backslashreplace").decode())  # \\ud800: JSON's way to say it, too


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        FileError: it is missing, not UTF-8, not JSON (with line and column), or says one key twice.
    """
    path = Path(path)
    try:
        _regular(path)
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except FileNotFoundError:
        raise FileError("the file is missing", where=path) from None
    except (OSError, UnicodeDecodeError) as error:
        raise FileError("the file cannot be read", where=path, got=error) from None
    except (ValueError, RecursionError) as error:
        raise FileError("the file is not valid JSON", where=path, got=error, do="download or save it again") from None


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        FileError: it is missing, or cannot be read.
    """
    digest = hashlib.sha256()
    try:
        _regular(Path(path))
        with Path(path).open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    except OSError as error:
        raise FileError("the file cannot be read", where=path, got=error) from None
    return digest.hexdigest()


def flush(path: Path) -> None:
    """Wait until the bytes of a file, or the names of a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _held(part: Path) -> Iterator[None]:
    """Lock a folder for the time of the block, then mark it; the system drops the lock when the process ends.

    Where the disk knows no locks there is no mark either, and nobody will sweep it.
    """
    descriptor = os.open(part, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (part / MARK).write_text(f"{socket.gethostname()} {os.getpid()}\n", encoding="utf-8")
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path, busy: str, do: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 200).decode(errors="replace").strip()
        raise UsageError(busy, where=path.parent, got=holder, do=do) from None
    except OSError as error:
        print(f"{path.parent}: this disk knows no locks ({error}): nothing keeps a second process away",
              file=sys.stderr)  # fmt: skip


def _is_ours(part: Path) -> bool:
    """Whether a process of this user on this machine began it."""
    mark = part / MARK
    if part.is_symlink() or not part.is_dir() or mark.is_symlink() or not mark.is_file():
        return False
    try:
        host = mark.read_text(encoding="utf-8").split(" ")[0]
        return host == socket.gethostname() and part.stat().st_uid == os.geteuid()
    except (OSError, UnicodeDecodeError):
        return False


def _regular(path: Path) -> None:
    if path.exists() and not path.is_file():  # a pipe or a device may never end
        raise FileError("the file cannot be read", where=path, got="a directory, pipe or device, not a file")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; of two values for one key, a reader would take the last one silently."""
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return value


def _check_target(path: Path, overwrite: bool) -> None:
    if not path.exists():
        return
    if path.resolve() in (here := Path.cwd(), *here.parents):
        raise FileError("the target is the working directory, which cannot be put in place as a whole", where=path,
                        do="name a new directory in it, or change to another one first")  # fmt: skip
    if overwrite and not path.is_dir():
        raise FileError("the target is not a directory", where=path, do="name another one, or remove the file")
    if not overwrite and (not path.is_dir() or any(path.iterdir())):
        raise FileError("the target is there already", where=path,
                        do="name another directory, remove it, or pass --overwrite")  # fmt: skip


def umask() -> int:
    """Permissions that this process takes from new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _swap(aside: Path, path: Path, overwrite: bool) -> None:
    """Put `aside` in the place of `path`; an older directory is moved away first, and back if that fails."""
    if not overwrite or not path.exists():
        _appear(aside, path)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
    path.replace(old)
    try:
        aside.replace(path)
    except OSError:
        old.replace(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _appear(aside: Path, path: Path) -> None:
    """Rename in one step, which the system allows onto nothing or an empty directory only."""
    try:
        aside.replace(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise FileError("the target appeared meanwhile; it was left as it is, and nothing was written", where=path,
                        do="name another directory, or remove it and run this again") from None  # fmt: skip


def _is_about(named: Path, target: Path) -> bool:
    """Whether a file stands on the way to `target`, or beside it, where it is written aside."""
    return named in target.parents or target.parent in named.parents


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Say a full disk or a read-only place as one FileError with the path."""
    try:
        yield
    except OSError as error:
        named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else path
        if not _is_about(named.absolute(), path.absolute()):  # a file that was read, not the one being written
            raise FileError("a file cannot be used; nothing was written", where=named, got=error) from error
        do = _DO.get(error.errno or 0, "check the path and the disk, then run this again")
        raise FileError("writing failed, nothing was kept", where=path, got=error, do=do) from error
