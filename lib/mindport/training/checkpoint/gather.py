"""A checkpoint that lies in the shares of several processes → one that is whole, array by array."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

from mindport.errors import UsageError
from mindport.files import atomic_directory, check_replaceable
from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.checkpoint.origin import read_origin
from mindport.training.checkpoint.read import Saved, read_checkpoint
from mindport.training.checkpoint.record import NAME
from mindport.training.checkpoint.write import Taken, fill


@dataclass(frozen=True)
class GatherReport(Result):
    """What was put together.

    Attributes:
        source, target: directories.
        layout: of the processes that wrote the source.
        shards: files that held the arrays.
        weights, state: arrays.
        numbers: in all of them.
        equal: arrays whose bytes in the target are those of the source, by reading both again.
        seconds: that it took.
    """

    source: Path
    target: Path
    layout: str
    shards: int
    weights: int
    state: int
    numbers: int
    equal: int
    seconds: float

    @property
    def ok(self) -> bool:
        return self.equal == self.weights + self.state

    def headline(self) -> str:
        return (f"{self.equal} of {self.weights + self.state} arrays of {self.layout} put together, bit for bit: "
                f"{self.target}")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [("shards", self.shards), ("weights", self.weights), ("arrays of the training", self.state),
                ("numbers", self.numbers), ("seconds", self.seconds)]  # fmt: skip
        return (Table("put together", ("what", "figure"), rows),)

    def properties(self) -> tuple[Property, ...]:
        return (verdict("a sharded checkpoint put together holds the arrays of its shares, bit for bit", self.ok,
                        f"{self.source.name}, {self.layout}", self.headline()),)  # fmt: skip


def gather(source: Path | str, target: Path | str, *, overwrite: bool = False) -> GatherReport:
    """Write the whole checkpoint of one in shares: what one process would have saved in its place.

    It needs memory for the largest array, and is a MindPort directory: it loads, verifies, converts, resumes.

    Raises:
        UsageError: the source is whole already.
        FileError: it is damaged, or the target is there already, or the disk refuses.
        MappingError: its weights make no model.
    """
    began, source, target = time.perf_counter(), Path(source), Path(target)
    saved = read_checkpoint(source)
    if saved.record.layout is None:
        raise UsageError("the checkpoint is whole already", where=source, do="take it as it is")
    if overwrite:
        check_replaceable(target, NAME)
    origin = read_origin(source)
    before = replace(origin, manifest=replace(origin.manifest, steps=origin.manifest.steps - saved.step))
    taken = Taken(saved.step, saved.loss, saved.weights, saved.state, saved.about)
    with atomic_directory(target, overwrite=overwrite) as aside:
        fill(aside, taken, before, saved.record.versions)
    return _report(saved, target, began)


def _report(saved: Saved, target: Path, began: float) -> GatherReport:
    there = read_checkpoint(target)
    equal = sum(
        name in found and found[name].tobytes() == meant[name].tobytes()
        for found, meant in ((there.weights, saved.weights), (there.state, saved.state)) for name in meant
    )  # fmt: skip
    shapes = [held.shape for pieces in (saved.weights, saved.state) for held in pieces.held.values()]
    assert saved.record.layout is not None
    return GatherReport(
        saved.path, target, saved.record.layout, len(saved.manifest.files), len(saved.weights), len(saved.state),
        sum(map(math.prod, shapes)), equal, time.perf_counter() - began,
    )  # fmt: skip
