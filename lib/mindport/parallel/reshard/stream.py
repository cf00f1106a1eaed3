"""Some arrays at a time, so that memory is that of a few arrays, and not of the model.

read from every rank ── gather (MindSpore) ── scatter (MindSpore) ── compare with numpy's slices ── write
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mindport.parallel.reshard.mindspore_side import PREFIX
from mindport.parallel.reshard.places import Entry, Grid, Place, device_layout, holders, part
from mindport.parallel.reshard.side import MindSporeSide
from mindport.parallel.reshard.sink import METADATA, Sink, held
from mindport.parallel.reshard.source import Source, whole_value
from mindport.weights.dtypes import ARRAYS, raw
from mindport.weights.safetensors_io import make_header, read_header, read_tensor
from mindport.weights.writers import FileLayout, SafetensorsFiles

AT_ONCE = 32 << 20  # bytes of whole arrays that pass together; a larger one passes alone
PIECE = 1 << 20  # bytes that are compared at a time: the comparison is an array, too


@dataclass(frozen=True)
class Strategies:
    """Strategy files: of the source, None where it is whole; of the target, likewise."""

    before: Path | None
    after: Path | None


@dataclass(frozen=True)
class Arrangement:
    """Where the parts of all arrays go."""

    places: Mapping[str, Place]
    grid: Grid


def write_strategy(
    side: MindSporeSide, path: Path, entries: Mapping[str, Entry], at: Arrangement, folder: Path
) -> Path | None:
    """The strategy file of an arrangement, None for one rank; numbers without axes have none in MindSpore either."""
    if at.grid.ranks == 1:
        return None
    stages = {
        stage * at.grid.stage: {
            name: device_layout(entry, at.places[name], at.grid)
            for name, entry in entries.items()
            if entry.shape and stage in at.places[name].stages
        }
        for stage in range(at.grid.pp)
    }
    side.ask("strategy", path=path, matrix=[at.grid.copies, at.grid.tp], stages=stages, folder=folder)
    return path


def move(
    source: Source, target: Arrangement, strategies: Strategies, side: MindSporeSide, sink: Sink, work: Path,
    advance: Callable[[int], None] = lambda done: None, at_once: int = AT_ONCE,
) -> list[str]:  # fmt: skip
    """Move every array; what MindSpore made otherwise than numpy does comes back, in words. It stops at the first few
    arrays in which there is some."""
    for group in groups(list(source.entries.values()), at_once):
        folder = work / "passing"
        wholes = _write_parts(source, group, folder / "before")
        _transform(side, folder, strategies, [entry.name for entry in group])
        entries = {entry.name: entry for entry in group}
        if wrong := _take(folder / "after", entries, target, wholes, sink):
            return wrong
        shutil.rmtree(folder)
        wholes.clear()  # before the next ones are read
        advance(sum(entry.nbytes for entry in group))
    return []


def groups(entries: Sequence[Entry], at_once: int) -> Iterator[list[Entry]]:
    """Arrays in their order, at most so many bytes together."""
    group: list[Entry] = []
    for entry in entries:
        if group and sum(other.nbytes for other in group) + entry.nbytes > at_once:
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _write_parts(source: Source, group: Sequence[Entry], folder: Path) -> dict[str, np.ndarray]:
    """The source's ranks with these arrays alone; returns the whole arrays. A rank that holds none has an empty file,
    which MindSpore wants to be there."""
    entries = {entry.name: entry for entry in group}
    files = {}
    for rank in range(source.grid.ranks):
        (folder / f"rank_{rank}").mkdir(parents=True)
        header = make_header(held(entries, source.places, source.grid, rank), METADATA)
        files[rank] = SafetensorsFiles(folder, FileLayout({f"rank_{rank}/{PREFIX}{rank}.safetensors": header}))
    wholes = {name: whole_value(source, name, _passing(source, name, files)) for name in entries}
    for file in files.values():
        file.close()
    return wholes


def _passing(source: Source, name: str, files: Mapping[int, SafetensorsFiles]) -> Iterator[tuple[int, np.ndarray]]:
    """The parts of an array, each written on its way."""
    for rank in holders(source.places[name], source.grid):
        x = source.read(rank, name)
        files[rank].write(name, x)
        yield rank, x


def _transform(side: MindSporeSide, folder: Path, strategies: Strategies, names: Sequence[str]) -> None:
    """From `before` to `after`, by way of the whole (see `mindspore_side`)."""
    at = folder / "before"
    for name, before, after in (("whole", strategies.before, None), ("after", None, strategies.after)):
        if before or after:
            side.ask("transform", source=at, target=folder / name, before=before, after=after, names=names)
            at = folder / name
    if at.name != "after":
        at.rename(folder / "after")


def _take(
    folder: Path, entries: Mapping[str, Entry], target: Arrangement, wholes: Mapping[str, np.ndarray], sink: Sink
) -> list[str]:
    """Compare what MindSpore made with the slices of the whole, bit by bit, and pass it on to the files."""
    wrong = []
    for rank in range(target.grid.ranks):
        path = folder / f"rank_{rank}" / f"{PREFIX}{rank}.safetensors"
        header = read_header(path) if path.exists() else make_header({}, {})
        meant = held(entries, target.places, target.grid, rank)
        for name in sorted(meant.keys() | header.entries.keys()):
            if name not in meant or name not in header.entries:
                wrong.append(f"rank {rank}: {name} {'is missing' if name in meant else 'should not be there'}")
                continue
            cut = part(entries[name], target.places[name], target.grid, rank)
            assert cut is not None
            made = read_tensor(path, header, name, ARRAYS)
            if said := _difference(made, expected := wholes[name][cut]):
                wrong.append(f"rank {rank}: {name} {said}")
            else:
                sink.write(rank, name, made, expected)
    return wrong


def _difference(made: np.ndarray, meant: np.ndarray) -> str:
    """In which way two arrays are not the same bits; empty where they are."""
    if (made.shape, made.dtype) != (meant.shape, meant.dtype):
        return f"is {made.dtype} {list(made.shape)}, not {meant.dtype} {list(meant.shape)}"
    a, b = raw(made), raw(meant)
    starts = range(0, a.size, PIECE)
    bad = sum(int(np.count_nonzero(a[i : i + PIECE] != b[i : i + PIECE])) for i in starts)
    return f"differs in {bad:,} of {meant.nbytes:,} bytes" if bad else ""
