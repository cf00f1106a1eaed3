"""Which files hold the weights of a directory, and that none of them lies elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mindport.config.locate import is_plain
from mindport.errors import FileError, some
from mindport.files import read_json


@dataclass(frozen=True)
class Shards:
    """The files of one checkpoint.

    Attributes:
        files: in order; one, or the shards that the index names.
        index: the index file, None for a single file.
        weight_map: tensor → file name, as the index says it.
    """

    files: tuple[Path, ...]
    index: Path | None = None
    weight_map: Mapping[str, str] | None = None


def find_shards(directory: Path, stem: str, suffix: str) -> Shards | None:
    """`stem + suffix`, or the shards of `stem + suffix + ".index.json"`; None when there is neither.

    Raises:
        FileError: both are there, a shard is missing, one is not in the index, or a name leaves the directory.
    """
    single, index = directory / f"{stem}{suffix}", directory / f"{stem}{suffix}.index.json"
    loose = [path.name for path in sorted(directory.glob(f"{stem}-*{suffix}")) if _is_shard(path.name)]
    if is_there(single) and (is_there(index) or loose):
        raise FileError(
            "one file and shards are both there; nothing says which holds the model", where=directory,
            got=f"{single.name} and {index.name if is_there(index) else some(loose)}", do="remove the stale ones",
        )  # fmt: skip
    if is_there(single):
        return Shards((inside(directory, single.name),))
    if is_there(index):
        return _indexed(directory, index, loose)
    if loose:
        raise FileError("shards without their index", where=directory, got=some(loose), expected=index.name,
                        do="download or save the index again")  # fmt: skip
    return None


def check_index(shards: Shards, found: Mapping[str, str]) -> None:
    """Hold the index to the files: `found` is tensor → file name, as the files say it.

    Raises:
        FileError: a tensor is missing, is in another shard, or is not in the index.
    """
    if shards.weight_map is None or shards.weight_map == found:
        return
    listed = shards.weight_map
    faults = {
        "listed, but in no file": listed.keys() - found.keys(),
        "in a file, but not listed": found.keys() - listed.keys(),
        "in another file than listed": {name for name in listed.keys() & found.keys() if listed[name] != found[name]},
    }
    got = "; ".join(f"{len(names)} {what}: {some(sorted(names))}" for what, names in faults.items() if names)
    raise FileError("the index and its shards disagree", where=shards.index, got=got,
                    do="download or save the model again: the index is stale or a shard is another one's")  # fmt: skip


def inside(directory: Path, name: str) -> Path:
    """The file of that name in `directory`.

    A symbolic link may point into the directory, or from a snapshot of Hugging Face's cache to its blobs.

    Raises:
        FileError: the name or a link leads elsewhere, there is no such file, or it is a pipe, device or directory.
    """
    path = directory / name
    _plain(directory, name)
    if not path.exists():
        raise FileError("a file is missing", where=directory, got=name + ", a link to nothing" * path.is_symlink(),
                        do="finish the download")  # fmt: skip
    real, home = path.resolve(), directory.resolve()
    blobs = [home.parents[1] / "blobs"] if home.parent.name == "snapshots" else []
    if not any(real.is_relative_to(place) for place in (home, *blobs)):
        raise FileError("a symbolic link that leads out of the directory", where=path, got=real,
                        do="copy the file itself into the directory")  # fmt: skip
    if not path.is_file():  # reading a pipe or a device may never end
        raise FileError("not a file, but a directory, pipe or device", where=path, do="download or save it again")
    return path


def is_there(path: Path) -> bool:
    """Whether there is a file, or a link to one that may have been lost: Hugging Face's cache is made of such links."""
    return path.exists() or path.is_symlink()


def _indexed(directory: Path, index: Path, loose: list[str]) -> Shards:
    content = read_json(inside(directory, index.name))
    weight_map = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(v, str) for v in weight_map.values()):
        raise FileError("the index has no weight_map from tensor to file", where=index, do="download it again")
    names = sorted(set(weight_map.values()))
    for name in names:
        _plain(index, name)
    if missing := [name for name in names if not (directory / name).exists()]:
        raise FileError(f"{len(missing)} of {len(names)} shards are missing", where=directory, got=some(missing, 5),
                        do="finish the download")  # fmt: skip
    if stale := sorted(set(loose) - set(names)):
        raise FileError("shards that the index does not name", where=index, got=some(stale), do="remove the stale ones")
    return Shards(tuple(inside(directory, name) for name in names), index, weight_map)


def _plain(where: Path, name: str) -> None:
    if not is_plain(name):
        raise FileError("a file name that leads out of the directory, or fits no disk", where=where,
                        got=name[:80] + "…" * (len(name) > 80), expected="a plain name")  # fmt: skip


def _is_shard(name: str) -> bool:
    return re.search(r"-\d+-of-\d+\.", name) is not None
