"""Checkpoints for these tests, and what a rank should hold of them: by the schema, without the code under test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from mindport.config import schema
from mindport.mindformers import parse_layout
from mindport.parallel.reshard import Grid, Resharded, reshard
from mindport.parallel.reshard.places import grid
from mindport.training.checkpoint import Checkpoints
from mindport.weights import load
from tests.training.checkpoint.runs import snapshot

Arrays = dict[str, np.ndarray]


def trained(source: Path, root: Path, step: int = 5) -> Path:
    """A training's checkpoint of that model."""
    with Checkpoints(root, source, asynchronous=False) as checkpoints:
        return checkpoints.save(snapshot(source, step), loss=2.5).path


def moved(src: Path, dst: Path, to: str, **options: Any) -> Resharded:
    """Resharded without a word, however small the arrays are, and green."""
    result = reshard(src, dst, to, threshold=0, progress=False, **options)
    assert result.ok, result.text()
    return result


def arrays_of(directory: Path) -> Arrays:
    """All arrays of a whole directory, read with the safetensors library."""
    return {name: x for path in sorted(directory.glob("*.safetensors")) for name, x in load_file(path).items()}


def rank_arrays(directory: Path) -> list[Arrays]:
    """What each rank holds, read with the safetensors library, which is not ours."""
    ranks = sorted(directory.glob("rank_*"), key=lambda path: int(path.name.removeprefix("rank_")))
    return [load_file(*path.glob("*.safetensors")) for path in ranks]


def same(a: Arrays, b: Arrays) -> bool:
    """The same names, types, shapes and bits."""
    return a.keys() == b.keys() and all(
        (str(a[n].dtype), a[n].shape, a[n].tobytes()) == (str(b[n].dtype), b[n].shape, b[n].tobytes()) for n in a
    )


def share(name: str, x: np.ndarray, source: Path, tp: int, tp_rank: int) -> np.ndarray:
    """What one of `tp` ranks holds of a weight or a mean of ours: an equal share along the schema's axis."""
    model = load(source, check=False).config
    rows = {f"{prefix}{n}": row for n, row in schema.parameters(model) for prefix in ("", "adam.m.", "adam.v.")}
    axis = rows[name].tp if name in rows else None
    if axis is None or x.shape[axis] % tp:
        return x
    return np.split(x, tp, axis)[tp_rank]


def stage_of(name: str, layers: tuple[int, ...], tied: bool) -> set[int]:
    """The stages that need an array of ours, where the layers are split so."""
    bare = name.removeprefix("adam.m.").removeprefix("adam.v.")
    last = len(layers) - 1
    if bare.startswith("blocks."):
        owner = [stage for stage, count in enumerate(layers) for _ in range(count)]
        return {owner[int(bare.split(".")[1])]}
    if bare == "embed.weight":
        return {0, last} if tied else {0}
    return {"position": {0}, "norm": {last}, "head": {last}}.get(bare.split(".")[0], set(range(last + 1)))


def over(layout: str) -> Grid:
    return grid(parse_layout(layout))


def write_ranks(directory: Path, ranks: list[Arrays], name: str = "net_rank_{}-1_10.safetensors") -> Path:
    """Rank folders as MindSpore's callback leaves them."""
    for rank, arrays in enumerate(ranks):
        (directory / f"rank_{rank}").mkdir(parents=True)
        save_file(arrays, directory / f"rank_{rank}" / name.format(rank), metadata={"format": "ms"})
    return directory
