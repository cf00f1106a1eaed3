"""mindport.json: what a converted directory holds, where it came from, and the digests that prove it.

The source's headers and index are kept as they stood, so that the way back can write the very same files.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

import mindport
from mindport.config import ModelConfig, dialect_for, from_dict, to_dict
from mindport.config.locate import is_plain
from mindport.config.wrappers import is_prefix
from mindport.config.write import fits
from mindport.errors import FileError
from mindport.files import read_json, write_json

NAME, FORMAT = "mindport.json", 1


@dataclass(frozen=True)
class Source:
    """The Hugging Face directory behind a converted one.

    Attributes:
        path: where it was, absolute.
        model_type: its family.
        prefix: what its names begin with.
        format: "safetensors" or "pytorch".
        files: file → {"sha256", "size"}.
        tensors: foreign tensor → file, in the files' order.
        metadata: file → the metadata of its header.
        tied_duplicates: copies of the embedding under the head's name.
        dropped: buffers that were left behind.
        headers: file → its header, verbatim.
        index: the index file, verbatim; None for a single file.
    """

    path: str
    model_type: str
    prefix: str
    format: str
    files: dict[str, dict[str, Any]]
    tensors: dict[str, str]
    metadata: dict[str, dict[str, str]]
    tied_duplicates: list[str]
    dropped: list[str]
    headers: dict[str, str]
    index: str | None = None


@dataclass(frozen=True)
class Manifest:
    """What mindport.json says.

    Attributes:
        model: the configuration.
        dtype: "keep", or the precision that was asked for.
        source: None for weights that did not come from a Hugging Face directory.
        files: weight file → {"sha256", "bytes"}.
        accounting: the figures that closed.
        allowed: unknown keys of config.json that the user let pass.
        mindport: the version that wrote it.
        target: whose names the files carry, as in `mindport convert --to`.
        rewritten: companions that the target reads differently, as they stood: name → text.
        steps: of training that the weights have gone through since they came from the source.
    """

    model: ModelConfig
    dtype: str
    source: Source | None
    files: dict[str, dict[str, Any]]
    accounting: dict[str, int]
    allowed: list[str] = field(default_factory=list)
    mindport: str = mindport.__version__
    target: str = "mindspore"
    rewritten: dict[str, str] = field(default_factory=dict)
    steps: int = 0

    @property
    def digests(self) -> dict[str, Any]:
        """Weight file → SHA-256."""
        return {name: known.get("sha256") for name, known in self.files.items()}


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write mindport.json into a directory."""
    fields = {item.name: getattr(manifest, item.name) for item in dataclasses.fields(manifest)}
    fields |= {"model": to_dict(manifest.model), "source": manifest.source and dataclasses.asdict(manifest.source)}
    write_json(directory / NAME, {"format": FORMAT, **fields})


def read_manifest(directory: Path) -> Manifest:
    """Read mindport.json of a directory.

    Raises:
        FileError: it is missing, damaged, or of another version of the format.
    """
    path = directory / NAME
    if not path.exists():
        raise FileError("not a MindPort directory: it has no mindport.json", where=directory,
                        do="convert the Hugging Face directory first: mindport convert SRC DST")  # fmt: skip
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        got = value.get("format") if isinstance(value, dict) else type(value).__name__
        raise FileError("a manifest of another format", where=path, got=got, expected=FORMAT,
                        do="convert the model again with this version")  # fmt: skip
    try:
        fields = {name: item for name, item in value.items() if name != "format"}
        fields |= {"model": from_dict(value["model"]), "source": value["source"] and Source(**value["source"])}
        manifest = Manifest(**fields)
    except (KeyError, TypeError) as error:
        raise FileError("the manifest is damaged", where=path, got=error, do="convert the model again") from None
    _check(path, manifest)
    return manifest


def _check(path: Path, manifest: Manifest) -> None:
    """The manifest's own fields; those of the model were checked as it was read."""
    parts: tuple[Manifest | Source, ...] = (manifest, manifest.source) if manifest.source else (manifest,)
    for part in parts:
        for name, kind in get_type_hints(type(part)).items():
            value = getattr(part, name)
            fine = isinstance(value, (ModelConfig, Source)) or fits(value, kind)
            if not fine or not _makes_sense(name, value, part, manifest):
                raise FileError("the manifest is damaged", where=f"{path}: {name}",
                                got=f"{str(value)[:80]}", expected=str(kind).replace("typing.", ""),
                                do="convert the model again")  # fmt: skip


def _makes_sense(name: str, value: Any, part: Manifest | Source, manifest: Manifest) -> bool:
    """Whether the way back can use a field of the right type: it writes files of these names with these texts."""
    if isinstance(part, Manifest):
        return name != "rewritten" or all(map(_is_utf8, value.values()))
    match name:
        case "prefix":
            return is_prefix(dialect_for(manifest.model.model_type), value)
        case "files":
            return all(is_plain(file) and isinstance(known.get("sha256"), str) for file, known in value.items())
        case "tensors":
            return all(map(is_plain, value.values()))
        case "headers":
            return all(is_plain(file) and _is_utf8(text) for file, text in value.items())
        case "index":
            return value is None or (_is_utf8(value) and _weight_map(value) == part.tensors)
    return True


def _is_utf8(text: str) -> bool:
    return text == text.encode("utf-8", "replace").decode()


def _weight_map(index: str) -> object:
    try:
        return json.loads(index)["weight_map"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
