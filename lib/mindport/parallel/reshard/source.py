"""What is resharded, opened: arrays by rank and name, read when asked for.

A MindPort directory, or a training's checkpoint, is one rank that holds everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from mindport.errors import FileError, UsageError
from mindport.mindformers import Layout, parse_layout
from mindport.parallel.reshard import manifest as resharded
from mindport.parallel.reshard.entries import state_entries, weight_entries, with_dtypes
from mindport.parallel.reshard.places import Entry, Grid, Place, grid, part
from mindport.parallel.reshard.side import MindSporeSide
from mindport.training.checkpoint import read_checkpoint, read_record
from mindport.training.checkpoint.arrays import specs_of
from mindport.training.checkpoint.boxes import shape_of
from mindport.training.checkpoint.record import NAME as RECORD
from mindport.training.checkpoint.record import Record
from mindport.weights.dtypes import ARRAYS
from mindport.weights.manifest import Manifest, read_manifest
from mindport.weights.safetensors_io import Header, read_header, read_tensor
from mindport.weights.store import open_converted
from mindport.weights.writers import Specs

WHOLE = Layout()
Read = Callable[[int, str], np.ndarray]


@dataclass(frozen=True)
class Source:
    """A checkpoint in some layout.

    Attributes:
        path: its directory.
        layout: that it is in.
        entries, places: of its arrays.
        files: file → SHA-256.
        origin: the folder of its small files.
        manifest: of the weights; None where they are of no MindPort directory.
        record: of the training; None where there is none.
        read: (rank, name) → the part that a rank holds.
        notes: what is to be said.
    """

    path: Path
    layout: Layout
    entries: dict[str, Entry]
    places: dict[str, Place]
    files: dict[str, str]
    origin: Path
    manifest: Manifest
    record: Record | None
    read: Read
    notes: tuple[str, ...] = field(default=())

    @property
    def grid(self) -> Grid:
        return grid(self.layout)


def open_whole(path: Path) -> Source:
    """A MindPort directory, or a training's checkpoint: everything is compared with its digests.

    Raises:
        FileError, MappingError: see `open_converted` and `read_checkpoint`.
    """
    if not (path / RECORD).exists():
        weights = open_converted(path)
        manifest, specs = weights.manifest, weights.specs
        return _whole(path, manifest, None, _entries(manifest, specs, {}), weights.__getitem__)
    saved = read_checkpoint(path)
    entries = _entries(saved.manifest, specs_of(saved.weights), specs_of(saved.state))
    record = replace(saved.record, layout=None, arrays={})  # what lay in shares does so no longer
    return _whole(path, saved.manifest, record, entries, lambda name: saved.part(name, ()))


def _whole(
    path: Path, manifest: Manifest, record: Record | None, entries: dict[str, Entry], read: Callable[[str], np.ndarray]
) -> Source:
    digests = {name: file["sha256"] for name, file in (record or manifest).files.items()}
    places = dict.fromkeys(entries, Place(None, (0,)))
    return Source(path, WHOLE, entries, places, digests, path, manifest, record, lambda rank, name: read(name))


def _entries(manifest: Manifest, weights: Specs, state: Specs) -> dict[str, Entry]:
    entries = weight_entries(manifest.target, manifest.model)
    entries = with_dtypes(entries, {name: dtype for name, (dtype, _) in weights.items()})
    return entries | state_entries(entries, state)


def open_ranks(path: Path, side: MindSporeSide, work: Path) -> Source:
    """Folders of ranks that an earlier resharding wrote: every file is compared with its digest.

    Raises:
        FileError: a file is missing or was changed.
    """
    found = resharded.read(path)
    layout = parse_layout(found.layout)
    files = safetensors_of({rank: path / file for rank, file in found.ranks.items()}, side, work)
    headers = {rank: read_header(file) for rank, file in files.items()}
    check_parts(path, found.entries, found.places, grid(layout), headers)
    origin = path / resharded.ORIGIN
    record = read_record(origin) if (origin / RECORD).exists() else None
    digests = {name: file["sha256"] for name, file in found.files.items()}
    return Source(path, layout, found.entries, found.places, digests, origin, read_manifest(origin), record,
                  reader(files, headers))  # fmt: skip


def safetensors_of(files: Mapping[int, Path], side: MindSporeSide, work: Path) -> dict[int, Path]:
    """Rank → its file as safetensors, which are read array by array; a .ckpt is turned into one in `work`."""
    found = {}
    for rank, file in files.items():
        if file.suffix == ".ckpt":
            target = work / f"source_{rank}.safetensors"
            side.ask("convert", source=file, target=target)
            file = target
        found[rank] = file
    return found


def reader(files: Mapping[int, Path], headers: Mapping[int, Header]) -> Read:
    """Reads (rank, name) from safetensors files."""
    return lambda rank, name: read_tensor(files[rank], headers[rank], name, ARRAYS)


def check_parts(
    where: Path, entries: Mapping[str, Entry], places: Mapping[str, Place], over: Grid, headers: Mapping[int, Header]
) -> None:
    """Hold the files to the layout: every part is there, in its shape and precision, and nothing else.

    Raises:
        FileError: they are not of this layout.
    """
    if odd := sorted(headers.keys() ^ set(range(over.ranks))):
        raise FileError("the rank folders are not those of the layout", where=where,
                        got=", ".join(f"rank_{rank} {'too many' if rank in headers else 'missing'}" for rank in odd),
                        expected=f"rank_0 … rank_{over.ranks - 1}")  # fmt: skip
    for rank, header in headers.items():
        meant = {name: (entry.dtype, shape_of(cut)) for name, entry in entries.items()
                 if (cut := part(entry, places[name], over, rank)) is not None}  # fmt: skip
        found = {name: (entry.dtype, entry.shape) for name, entry in header.entries.items()}
        if wrong := sorted(name for name in meant.keys() | found.keys() if meant.get(name) != found.get(name)):
            raise FileError("a rank does not hold what the layout gives it", where=where / f"rank_{rank}",
                            got=f"{wrong[0]}: {found.get(wrong[0], 'nothing')} (and {len(wrong) - 1} more)",
                            expected=meant.get(wrong[0], "nothing"), do="check --from")  # fmt: skip


def whole_value(source: Source, name: str, parts: Iterable[tuple[int, np.ndarray]]) -> np.ndarray:
    """The array that the parts of the ranks make, which come one by one; copies of one part must be equal.

    Raises:
        FileError: they are not: nobody can say which one is the training's.
    """
    entry, at = source.entries[name], source.places[name]
    whole, known = np.empty(0), {}
    for rank, x in parts:
        cut = part(entry, at, source.grid, rank)
        assert cut is not None
        key = tuple((one.start, one.stop) for one in cut)
        if key in known and whole[cut].tobytes() != x.tobytes():
            raise FileError("two ranks that hold copies of one part differ", where=source.path,
                            got=f"{name} of rank {known[key]} and of rank {rank}", expected="equal bytes",
                            do="one of the files is damaged, or of another step")  # fmt: skip
        if not known:
            whole = x if x.shape == entry.shape else np.empty(entry.shape, ARRAYS[entry.dtype])
        if known.setdefault(key, rank) == rank and whole is not x:
            whole[cut] = x
    return whole


def check_from(said: Layout | None, source: Layout, where: Path) -> None:
    """Hold what the user said to what the directory says.

    Raises:
        UsageError: they differ in what matters to weights.
    """
    if said is not None and (grid(said), weights_zero(said)) != (grid(source), weights_zero(source)):
        raise UsageError("the checkpoint is in another layout", where=where, got=f"--from {said}",
                         expected=str(source), do="leave --from out: the directory says it")  # fmt: skip


def weights_zero(layout: Layout) -> int:
    """Which arrays are cut for the copies: 0 none, 1 the optimizer's means, 3 weights too."""
    return 0 if grid(layout).copies == 1 else {0: 0, 1: 1, 2: 1, 3: 3}[layout.zero]
