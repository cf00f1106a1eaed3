"""mindport-reshard.json: which layout the rank folders are in, where each array went, and the digest of every file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindport
from mindport.errors import FileError, MindPortError
from mindport.files import read_json, sha256, write_json
from mindport.mindformers import parse_layout
from mindport.parallel.reshard.places import MOST, Entry, Place
from mindport.weights.dtypes import BITS

NAME, FORMAT = "mindport-reshard.json", 1
ORIGIN = "origin"  # the folder of the small files: configuration, tokenizer, manifests of the source


@dataclass(frozen=True)
class Manifest:
    """What mindport-reshard.json says.

    Attributes:
        layout: such as "dp2,tp2,pp2,zero1".
        source: {"path", "layout", "files": file → sha256}.
        ranks: rank → its file.
        files: file → {"sha256", "bytes"}, of all but this one.
        entries: name → the array.
        places: name → where its parts are.
    """

    layout: str
    source: dict[str, Any]
    ranks: dict[int, str]
    files: dict[str, dict[str, Any]]
    entries: dict[str, Entry]
    places: dict[str, Place]


def write(directory: Path, manifest: Manifest) -> None:
    """Write mindport-reshard.json into a directory."""
    write_json(directory / NAME, {
        "format": FORMAT, "mindport": mindport.__version__, "layout": manifest.layout, "source": manifest.source,
        "ranks": {str(rank): file for rank, file in manifest.ranks.items()}, "files": manifest.files,
        "arrays": {name: dataclasses.asdict(entry) | {"place": dataclasses.asdict(manifest.places[name])}
                   for name, entry in manifest.entries.items()},
    })  # fmt: skip


def read(directory: Path) -> Manifest:
    """Read mindport-reshard.json of a directory, and compare every file with its digest.

    Raises:
        FileError: it is damaged, of another version, or a file is missing or was changed.
    """
    path = directory / NAME
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise FileError("a manifest of another format", where=path, expected=FORMAT,
                        got=value.get("format") if isinstance(value, dict) else type(value).__name__,
                        do="reshard from the source again")  # fmt: skip
    try:
        layout = parse_layout(value["layout"])
        arrays = [(_entry(name, item), _place(name, item, layout.pp)) for name, item in value["arrays"].items()]
        manifest = Manifest(
            str(layout), value["source"], {int(k): str(v) for k, v in value["ranks"].items()},
            value["files"], {entry.name: entry for entry, _ in arrays}, {entry.name: at for entry, at in arrays},
        )  # fmt: skip
        known = {name: (str(file["sha256"]), int(file["bytes"])) for name, file in manifest.files.items()}
    except (KeyError, TypeError, ValueError, AttributeError, MindPortError) as error:
        raise FileError("the manifest is damaged", where=path, got=repr(error),
                        do="reshard from the source again") from None  # fmt: skip
    _check_files(directory, known)
    return manifest


def digest_of(path: Path) -> dict[str, Any]:
    """What the manifest says of a file."""
    return {"sha256": sha256(path), "bytes": path.stat().st_size}


def _check_files(directory: Path, known: dict[str, tuple[str, int]]) -> None:
    for name, (digest, size) in known.items():
        path = directory / name
        if ".." in Path(name).parts or Path(name).is_absolute() or not path.is_file():
            raise FileError("a file of the manifest is missing", where=directory, got=name,
                            do="put it back, or reshard from the source again")  # fmt: skip
        if path.stat().st_size != size or sha256(path) != digest:
            raise FileError("a file was changed after it was written", where=path, got="other bytes",
                            expected=f"sha256 {digest}", do="reshard from the source again")  # fmt: skip


def _entry(name: str, item: dict[str, Any]) -> Entry:
    fields = {key: item[key] for key in ("dtype", "axis", "home", "kind", "vocabulary")}
    shape = tuple(int(size) for size in item["shape"])
    known = fields["dtype"] in BITS and fields["kind"] in ("weight", "mean", "other")
    if not known or min(shape, default=0) < 0 or fields["axis"] not in (None, *range(len(shape))):
        raise ValueError(f"{name}: {shape}, {fields}")
    return Entry(name=name, shape=shape, **fields)


def _place(name: str, item: dict[str, Any], pp: int) -> Place:
    at = Place(item["place"]["axis"], tuple(item["place"]["stages"]), item["place"]["shards"])
    axes = range(len(item["shape"]))
    if at.axis not in (None, *axes) or not set(at.stages) <= set(range(pp)) or at.shards not in range(1, MOST + 1):
        raise ValueError(f"{name}: {at}")
    if not at.stages or (at.shards > 1 and not axes):
        raise ValueError(f"{name}: {at}")
    return at
