"""Operators read from source: nothing is imported, nothing is executed."""

from __future__ import annotations

import ast
import importlib.machinery
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from mindport.coverage.names import Names
from mindport.coverage.usage import Usage
from mindport.errors import FileError, UsageError

LARGEST = 10_000_000  # bytes of a source file
ASIDE = ("__pycache__", "node_modules", "site-packages")  # folders in a project that hold other people's code


def scan(path: Path) -> Usage:
    """The torch names in a file, or in each `.py` file below a directory.

    Raises:
        FileError: the file is no Python source, the directory holds none, or nothing of torch is imported.
    """
    if not path.is_dir():
        return _usage({path: _names(path)}, {}, path.parent)
    read: dict[Path, Names] = {}
    unread: dict[Path, str] = {}
    for file in _sources(path):
        try:
            read[file] = _names(file)
        except FileError as error:
            unread[file] = f"{error.what}: {error.got}"
    if not read and not unread:
        raise FileError("the directory holds no Python source", where=path, expected="files that end in .py")
    return _usage(read, unread, path)


def find_source(module: str) -> Path:
    """The file, or the directory, of a module that can be imported; no package on the way is executed.

    Raises:
        UsageError: there is no such module, or it has no source.
    """
    where: Sequence[str] = [str(Path.cwd()), *sys.path]
    spec, parts = None, module.split(".")
    for count in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:count]), where)
        if spec is None:
            break
        where = list(spec.submodule_search_locations or ())
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UsageError("there is no such file, directory or module with source", got=module,
                         expected="a path, package.module, or package.module:Name of a live module")  # fmt: skip
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def _usage(read: dict[Path, Names], unread: dict[Path, str], root: Path) -> Usage:
    """What the files use, each place by its path below `root`."""
    if not unread and not any(names.has_torch for names in read.values()):
        raise FileError("nothing here imports torch", where=root if len(read) > 1 else next(iter(read)),
                        do="name the source of the model that is to be ported")  # fmt: skip
    uses, notes = [], []
    for file, names in read.items():
        label = file.relative_to(root).as_posix()
        uses += [(name, f"{label}:{line}") for name, line in names.found if names.has_torch]
        notes += [f"{label}:{line}: `from {module} import *`: of its names only those in the table are seen"
                  for module, line in names.stars]  # fmt: skip
    return Usage(
        tuple(uses), len(read) + len(unread), tuple((str(file), why) for file, why in unread.items()), tuple(notes)
    )


def _sources(folder: Path) -> Iterator[Path]:
    """The Python files below a folder; links to folders are not followed.

    Raises:
        FileError: a folder cannot be listed.
    """
    for root, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = sorted(name for name in folders if name not in ASIDE and not name.startswith("."))
        yield from (Path(root, name) for name in sorted(files) if name.endswith(".py"))


def _refuse(error: OSError) -> NoReturn:
    raise FileError("the folder cannot be listed", where=error.filename, got=error.strerror) from None


def _names(path: Path) -> Names:
    """The names of a file.

    Raises:
        FileError: it cannot be read, or is not the source of a program for this Python.
    """
    try:
        names = Names(_package(path))
        names.visit(_parsed(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FileError("the file is not Python source", where=path, got=_reason(error), do=_do(path)) from None
    except OSError as error:
        raise FileError("the file cannot be read", where=path, got=error.strerror or error) from None
    return names


def _parsed(path: Path) -> ast.AST:
    if not path.is_file():
        kind = "a pipe, a device or a dead link" if os.path.lexists(path) else "nothing of that name"
        raise FileError("the file cannot be read", where=path, got=kind)
    if (size := path.stat().st_size) > LARGEST:
        raise FileError("the file is too large for source", where=path, got=f"{size:,} bytes",
                        expected=f"at most {LARGEST:,}")  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a "\d" in somebody's source is not ours to mention
        return ast.parse(path.read_bytes(), str(path))


def _reason(error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{error.msg}, line {error.lineno}"
    return str(error) or type(error).__name__


def _do(path: Path) -> str:
    if path.suffix == ".ipynb":
        return f"it is a notebook: jupyter nbconvert --to script {path.name}"
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"it must parse with this Python, {python}; Python 2 goes through 2to3 first"


def _package(path: Path) -> tuple[str, ...]:
    """The package a file belongs to, by the `__init__.py` above it."""
    parts: list[str] = []
    folder = path.absolute().parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    return tuple(parts)
