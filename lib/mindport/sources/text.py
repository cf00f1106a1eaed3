"""Plain text out of a source archive, read in place: nothing is unpacked, and nothing in it is run."""

from __future__ import annotations

import tarfile
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from mindport.errors import FileError

GAP = "\n\n\n"  # between two works


def read_works(archive: Path, pattern: str) -> dict[str, str]:
    """The texts whose member name matches `pattern`, by file stem, sorted; lines end in a newline alone.

    Raises:
        FileError: it is not a tar archive, nothing matches, or a text is not ASCII.
    """
    try:
        with tarfile.open(archive) as tar:
            chosen = [member for member in tar if member.isfile() and fnmatchcase(member.name, pattern)]
            works = {PurePosixPath(m.name).stem: _text(tar, m) for m in sorted(chosen, key=lambda m: m.name)}
    except (tarfile.TarError, EOFError, OSError) as error:
        raise FileError("the archive cannot be read", where=archive, got=error, do="fetch it again") from None
    if not works:
        raise FileError("the archive has no such text", where=archive, expected=pattern)
    return works


def join(works: dict[str, str]) -> str:
    """All the works as one text."""
    return GAP.join(works.values()) + "\n"


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    assert file is not None  # isfile() was true
    try:
        return file.read().decode("ascii").replace("\r\n", "\n").strip()
    except UnicodeDecodeError as error:
        raise FileError("a text is not ASCII", where=member.name, got=error) from None
