"""What each rank holds of each array, by the schema: arithmetic only, and none of it MindSpore's.

    rank = stage · (copies · tp) + copy · tp + share        copies = dp · cp

A pipeline's stages come first, then the copies of a stage, then the ranks that share a copy: MindSpore's device matrix
[copies, tp] of a stage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mindport.mindformers import Layout
from mindport.training.checkpoint.boxes import Box, shape_of
from mindport.weights.layouts import Shape
from mindport.weights.writers import nbytes

Home = int | Literal["first", "last", "ends", "all"]  # a layer, or the stages that need the array
Kind = Literal["weight", "mean", "other"]
THRESHOLD = 64  # KB; MindSpore's own `parallel_optimizer_threshold`
MOST = 1 << 14  # ranks, each of which gets a folder; beyond that somebody has mistyped


@dataclass(frozen=True, slots=True)
class Grid:
    """How many ranks, and which axis they stand on."""

    copies: int
    tp: int
    pp: int

    @property
    def stage(self) -> int:
        """Ranks of a stage."""
        return self.copies * self.tp

    @property
    def ranks(self) -> int:
        return self.stage * self.pp


@dataclass(frozen=True, slots=True)
class Entry:
    """One array of a checkpoint, whatever the layout.

    Attributes:
        name: in the files.
        dtype: safetensors' code.
        shape: of the whole.
        axis: that tensor parallelism may split, None where every rank holds all of it.
        home: which stages of a pipeline need it.
        kind: a weight; a mean, which the optimizer keeps of a weight and which lies as it does; or anything else.
        vocabulary: whether `axis` counts tokens: such an axis may stay whole.
    """

    name: str
    dtype: str
    shape: Shape
    axis: int | None
    home: Home
    kind: Kind = "weight"
    vocabulary: bool = False

    @property
    def nbytes(self) -> int:
        return nbytes(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the parts of an array are.

    Attributes:
        axis: that the ranks of a copy share.
        stages: that hold it.
        shards: into so many parts the copies cut what one rank would hold, along the first axis: MindSpore's
            optimizer parallelism.
    """

    axis: int | None
    stages: tuple[int, ...]
    shards: int = 1


def grid(layout: Layout) -> Grid:
    """Ranks of context parallelism hold copies of the weights, as those of data parallelism do."""
    return Grid(layout.dp * layout.cp, layout.tp, layout.pp)


def replicas(axis: int | None, over: Grid) -> int:
    """How many ranks of a stage hold the same part; they are those that MindSpore's optimizer parallelism cuts it for:
    what tensor parallelism leaves whole it cuts for all ranks of the stage."""
    return over.copies if axis is not None else over.stage


def place(entry: Entry, layout: Layout, layers: Sequence[int], *, whole_vocabulary: bool, threshold: int) -> Place:
    """Where an array goes.

    Args:
        entry: the array; its axis divides, unless it counts tokens.
        layout: the new one.
        layers: of each stage.
        whole_vocabulary: tables of tokens stay whole, as with mindformers' `vocab_emb_dp`; one that does not divide
            does so anyway.
        threshold: KB; smaller arrays are not cut for the copies.
    """
    over, axis = grid(layout), entry.axis
    if over.tp == 1 or (entry.vocabulary and (whole_vocabulary or entry.shape[entry.axis or 0] % over.tp)):
        axis = None
    found = Place(axis, _stages(entry.home, layers))
    size = replicas(axis, over)
    if is_cut(entry.kind, layout) and entry.shape and entry.nbytes >= threshold << 10:
        rows = entry.shape[0] // (over.tp if axis == 0 else 1)
        return found if rows % size else Place(axis, found.stages, size)
    return found


def is_cut(kind: Kind, layout: Layout) -> bool:
    """Whether the copies share out such arrays."""
    zero = {"mean": 1, "weight": 3, "other": 4}[kind]
    return layout.zero >= zero and grid(layout).copies > 1


def part(entry: Entry, at: Place, over: Grid, rank: int) -> Box | None:
    """The part of the whole that a rank holds, a slice with both ends for each axis; None where it holds none."""
    stage, local = divmod(rank, over.stage)
    if stage not in at.stages:
        return None
    copy, share = divmod(local, over.tp)
    ends = [(0, size) for size in entry.shape]
    if at.axis is not None:
        ends[at.axis] = _cut(ends[at.axis], share, over.tp)
    if at.shards > 1:
        ends[0] = _cut(ends[0], local if at.axis is None else copy, at.shards)
    return tuple(slice(*pair) for pair in ends)


def holders(at: Place, over: Grid) -> list[int]:
    """The ranks that hold some of it."""
    return [rank for rank in range(over.ranks) if rank // over.stage in at.stages]


def device_layout(entry: Entry, at: Place, over: Grid) -> tuple[list[int], int, int]:
    """The same for a strategy file of MindSpore: tensor_map, opt_weight_shard_step, opt_weight_shard_size.

    A map counts the axes of the device matrix [copies, tp] from the right, -1 is whole. For an array that tensor
    parallelism leaves whole the step is 1 and the size all ranks of the stage: a step of tp, over the copies alone,
    MindSpore's transform does not know ("Rank 2 is not in the current stage!").
    """
    maps = [0 if axis == at.axis else -1 for axis in range(len(entry.shape))]
    if at.shards == 1:
        return maps, 0, 0
    return maps, over.tp if at.axis is not None else 1, at.shards


def _cut(ends: tuple[int, int], index: int, count: int) -> tuple[int, int]:
    first, last = ends
    share = (last - first) // count
    return first + index * share, first + (index + 1) * share


def _stages(home: Home, layers: Sequence[int]) -> tuple[int, ...]:
    last = len(layers) - 1
    if isinstance(home, int):
        return (next(stage for stage in range(last + 1) if home < sum(layers[: stage + 1])),)
    return {"first": (0,), "last": (last,), "ends": tuple(sorted({0, last})), "all": tuple(range(last + 1))}[home]


def bytes_of(entry: Entry, box: Box) -> int:
    """The bytes of a part."""
    return entry.nbytes * math.prod(shape_of(box)) // max(math.prod(entry.shape), 1)
