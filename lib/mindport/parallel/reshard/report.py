"""What a resharding did: each kind of array, how it is cut, which ranks hold it, and what a rank weighs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mindport.parallel.reshard.places import Entry, Grid, Kind, Place, bytes_of, holders, part
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.checkpoint.boxes import shape_of
from mindport.weights.layouts import Shape


@dataclass(frozen=True)
class Row:
    """Arrays of one pattern that are cut alike.

    Attributes:
        name: with `{}` for a layer.
        count: how many there are.
        kind: weight, mean or other.
        shape: of the whole.
        axis: that the ranks of a copy share.
        shards: parts that the copies cut it into.
        part: the shape that a rank holds.
        ranks: how many hold some of it; of each, where there are several.
    """

    name: str
    count: int
    kind: Kind
    shape: Shape
    axis: int | None
    shards: int
    part: Shape
    ranks: int


@dataclass(frozen=True)
class RankFile:
    """What one rank got."""

    rank: int
    file: str
    arrays: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Resharded(Result):
    """The verdict of a resharding.

    Attributes:
        source, target: directories.
        before, after: layouts.
        names: whose names the arrays have, as in `mindport convert --to`.
        rows: the arrays.
        files: of the result.
        arrays: of the source, and of them means and other state.
        state: how many of them are not weights.
        compared: parts that were held to the slices of the whole.
        nbytes: of these.
        wrong: what MindSpore made otherwise, or did not read back; then nothing was kept.
        notes: what is to be known.
        memory: MB at the peak, above those at the beginning: of this process, and of MindSpore's.
    """

    source: Path
    target: Path
    before: str
    after: str
    names: str
    rows: tuple[Row, ...]
    files: tuple[RankFile, ...]
    arrays: int
    state: int
    compared: int
    nbytes: int
    wrong: tuple[str, ...]
    notes: tuple[str, ...]
    memory: tuple[float, float] = (0.0, 0.0)

    @property
    def ok(self) -> bool:
        return not self.wrong

    def headline(self) -> str:
        what = f"{self.before} → {self.after}: {self.source} → {self.target}"
        if self.wrong:
            return f"{what}: MindSpore's result is not what the schema says, nothing was kept: {self.wrong[0]}"
        state = f" ({self.state} of them state)" if self.state else ""
        return (f"{what}: {self.arrays} arrays{state}, {self.compared} parts and {self.nbytes:,} bytes equal to the "
                f"slices of the whole, and read back; memory {self.memory[0]:,.0f} MB here, {self.memory[1]:,.0f} MB "
                "in MindSpore")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [(row.name, row.count, row.shape, _cut(row), row.part, row.ranks) for row in self.rows]
        files = [(f"rank {file.rank}", file.file, file.arrays, f"{file.bytes:,}") for file in self.files]
        notes = [Table("To be known", ("note",), [(note,) for note in self.notes])] if self.notes else []
        wrong = [Table("Not as it should be", ("what",), [(what,) for what in self.wrong])] if self.wrong else []
        return (
            *wrong, *notes, Table("Who holds what", ("rank", "file", "arrays", "bytes"), files),
            Table("How each array is cut", ("array", "arrays", "whole", "cut", "of a rank", "ranks"), rows),
        )  # fmt: skip

    def properties(self) -> tuple[Property, ...]:
        how = (f"{self.before} → {self.after}: ms.transform_checkpoints with strategies from the schema, each part "
               "against numpy's slice of the whole, then read back")  # fmt: skip
        figure = f"{len(self.wrong)} of {self.compared} parts differ (limit 0)"
        return (verdict("a checkpoint changes its layout without a changed bit", self.ok, how, figure),)


def rows_of(entries: Mapping[str, Entry], places: Mapping[str, Place], over: Grid) -> tuple[Row, ...]:
    """The arrays by pattern, in their order."""
    counted: dict[tuple[object, ...], list[Entry]] = {}
    for entry in entries.values():
        at = places[entry.name]
        pattern = re.sub(r"\.\d+\.", ".{}.", entry.name)
        counted.setdefault((pattern, entry.shape, at.axis, at.shards), []).append(entry)
    return tuple(_row(str(key[0]), alike, places[alike[0].name], over) for key, alike in counted.items())


def parts_of(entries: Mapping[str, Entry], places: Mapping[str, Place], over: Grid) -> tuple[int, int]:
    """How many parts all ranks hold, and their bytes."""
    cuts = [bytes_of(entry, cut) for entry in entries.values() for rank in range(over.ranks)
            if (cut := part(entry, places[entry.name], over, rank)) is not None]  # fmt: skip
    return len(cuts), sum(cuts)


def _row(pattern: str, alike: list[Entry], at: Place, over: Grid) -> Row:
    entry, ranks = alike[0], holders(at, over)
    cut = part(entry, at, over, ranks[0])
    assert cut is not None
    return Row(pattern, len(alike), entry.kind, entry.shape, at.axis, at.shards, shape_of(cut), len(ranks))


def _cut(row: Row) -> str:
    said = [f"axis {row.axis}"] * (row.axis is not None)
    said += [f"{row.shards} ways along axis 0 for the copies"] * (row.shards > 1)
    return ", ".join(said) or "whole"
