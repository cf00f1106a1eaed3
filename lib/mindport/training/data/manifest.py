"""manifest.json: what a directory of tokens was made from, what is in it, and the digest of every file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.errors import FileError, some
from mindport.files import read_json, sha256, write_json

NAME = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """The manifest, as JSON has it.

    Attributes:
        request: what was asked for: the configuration, tokenizer and chat template (digests), the ids before and
            after a document and in padding, vocab_size, seed.
        sources: split, path, bytes, time of change and SHA-256 of each text.
        splits: split → {"counts": …, "files": {length: [name, …]}}.
        leaked: held-out documents that were left out, since the text to learn from has them.
        shared: texts to learn from that are held out all the same.
        files: name → {"sha256", "bytes"}.
        versions: of the packages that made it.
    """

    request: dict[str, Any]
    sources: list[dict[str, Any]]
    splits: dict[str, dict[str, Any]]
    leaked: int
    shared: int
    files: dict[str, dict[str, Any]]
    versions: dict[str, str]

    def write(self, directory: Path) -> None:
        """Write it, whole or not at all; its being there says that the directory is finished."""
        write_json(directory / NAME, {"format": FORMAT, **vars(self)})

    def lengths(self, split: str) -> dict[int, list[str]]:
        """The files of each length of a split."""
        return {int(length): names for length, names in self.splits[split]["files"].items()}


def read_manifest(directory: Path) -> Manifest:
    """Read it.

    Raises:
        FileError: it is missing or damaged, or of another version's format.
    """
    path = directory / NAME
    if not path.is_file():
        raise FileError("the directory holds no prepared text", where=directory, expected=NAME,
                        do="mindport prepare CONFIG; what is finished is kept")  # fmt: skip
    value = read_json(path)
    found = value.pop("format", None) if isinstance(value, dict) else None
    if found != FORMAT or set(value) != set(Manifest.__dataclass_fields__):
        raise FileError("the manifest is damaged, or of another version", where=path, got=f"format {found}",
                        expected=f"format {FORMAT}", do="remove the directory and prepare again")  # fmt: skip
    return Manifest(**value)


def describe_files(directory: Path, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Digest and size of files."""
    return {name: {"sha256": sha256(directory / name), "bytes": (directory / name).stat().st_size} for name in names}


def check_files(directory: Path, manifest: Manifest, digests: bool = True) -> None:
    """Hold the files to the manifest.

    Args:
        directory: where they are.
        manifest: what it says of them.
        digests: False: their sizes only.

    Raises:
        FileError: one is missing, torn or edited.
    """
    missing = [name for name in manifest.files if not (directory / name).is_file()]
    if missing:
        raise FileError("files of tokens are missing", where=directory, got=some(missing),
                        do="remove the directory and prepare again")  # fmt: skip
    for name, said in manifest.files.items():
        size = (directory / name).stat().st_size
        if size != said["bytes"] or (digests and sha256(directory / name) != said["sha256"]):
            raise FileError("a file of tokens is damaged: it is not the one that was written", where=directory / name,
                            got=f"{size} bytes", expected=f"{said['bytes']} bytes, SHA-256 {said['sha256'][:12]}…",
                            do="remove the directory and prepare again")  # fmt: skip
