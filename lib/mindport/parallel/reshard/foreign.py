"""Rank folders that others wrote: whose names they bear, and how each array is cut, read off the files themselves.

    rank_3/llama_rank_3-2_100.safetensors

What the network's own strategy did (a vocabulary kept whole, an optimizer that cut the weights, layers by stage) shows
in shapes, and in who holds what; the layout says how many ranks there are, and in which order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mindport.config import ModelConfig, read_config
from mindport.config.targets import TARGETS
from mindport.errors import FileError, MappingError, UsageError, some
from mindport.files import sha256
from mindport.mindformers import Layout
from mindport.parallel.reshard.entries import is_whole, state_entries, weight_entries, weight_of, with_dtypes
from mindport.parallel.reshard.places import Entry, Grid, Place, grid, is_cut, part, replicas
from mindport.parallel.reshard.side import MindSporeSide
from mindport.parallel.reshard.source import Source, check_parts, reader, safetensors_of
from mindport.training.checkpoint.boxes import shape_of
from mindport.weights.dtypes import ARRAYS
from mindport.weights.layouts import Shape
from mindport.weights.manifest import NAME, Manifest, read_manifest
from mindport.weights.safetensors_io import Header, read_header
from mindport.weights.writers import Specs

SUFFIXES = (".safetensors", ".ckpt")
FOLDER = re.compile(r"rank_(\d{1,6})", re.ASCII)


def open_foreign(
    path: Path, layout: Layout | None, model: Path | None, vocabulary: str | None, side: MindSporeSide, work: Path
) -> Source:
    """Rank folders of a training.

    Args:
        path: where the folders are.
        layout: of the training.
        model: a directory with the configuration.
        vocabulary: "whole" or "split" under tensor parallelism, None for the network's default.
        side: turns .ckpt files into ones that are read array by array.
        work: where these go.

    Raises:
        UsageError: layout or model are not said.
        FileError: a folder or file is missing, or the files are not of this layout.
        MappingError: the names are nobody's that we know, for this model.
    """
    folders = {int(found[1]): folder for folder in path.iterdir() if (found := FOLDER.fullmatch(folder.name))}
    if not folders:
        raise FileError(
            "neither a MindPort directory nor folders rank_0 …",
            where=path,
            do="name what `mindport convert` or `mindport reshard` wrote, or RUN/checkpoints/step-…",
        )
    if layout is None or model is None:
        raise UsageError("rank folders of a training do not say their layout and their model", where=path,
                         do="say --from and --model: the layout, and a directory with the config.json")  # fmt: skip
    over, files = grid(layout), {rank: _newest(folder) for rank, folder in sorted(folders.items())}
    notes = tuple(_choices(folders, files))
    if odd := files.keys() ^ set(range(over.ranks)):
        raise FileError("the rank folders are not those of the layout", where=path, expected=f"{over.ranks} folders",
                        got=some([f"rank_{rank}" for rank in sorted(odd)]) + " missing or too many",
                        do="check --from")  # fmt: skip
    readable = safetensors_of(files, side, work)
    headers = {rank: read_header(file) for rank, file in readable.items()}
    manifest, origin = _model(model, work)
    target, weights = _whose(manifest.model, headers, path)
    whole = is_whole(target, vocabulary)
    entries, places = _arrays(weights, layout, whole, headers, path)
    notes = (*notes, *_guess(entries, places, over, whole))
    check_parts(path, entries, places, over, headers)
    digests = {file.relative_to(path).as_posix(): sha256(file) for file in files.values()}
    made = Manifest(manifest.model, "keep", None, {}, {}, target=target)
    return Source(path, layout, entries, places, digests, origin, made, None, reader(readable, headers), notes)


def _newest(folder: Path) -> Path:
    """The file that MindSpore would take: of the largest last two numbers, epoch and step."""
    found = [file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file()]
    if not found:
        raise FileError("a rank's folder holds no checkpoint", where=folder, expected=" or ".join(SUFFIXES))
    return max(found, key=lambda file: ([int(n) for n in re.findall(r"\d+", file.stem)[-2:]], file.name))


def _choices(folders: Mapping[int, Path], files: Mapping[int, Path]) -> Iterator[str]:
    """Which of several files is taken; all ranks' must be of one step.

    Raises:
        FileError: they are not.
    """
    numbers = {tuple(re.findall(r"-(\d+)_(\d+)$", file.stem)) for file in files.values()}
    if len(numbers) > 1:
        raise FileError("the ranks' newest checkpoints are of different steps", where=folders[min(folders)].parent,
                        got=some(sorted(file.name for file in files.values())),
                        do="remove those that not every rank has")  # fmt: skip
    if any(sum(file.suffix in SUFFIXES for file in folder.iterdir()) > 1 for folder in folders.values()):
        yield f"of several checkpoints in a folder the newest is taken, as MindSpore does: {files[0].name}"


def _model(model: Path, work: Path) -> tuple[Manifest, Path]:
    """Configuration, and the folder of the small files that go along."""
    if (model / NAME).exists():
        return read_manifest(model), model
    config = read_config(model).model
    assert config is not None  # or it would have been refused
    if model.is_dir():
        return Manifest(config, "keep", None, {}, {}), model
    (work / "origin").mkdir()
    (work / "origin" / "config.json").write_bytes(model.read_bytes())
    return Manifest(config, "keep", None, {}, {}), work / "origin"


def _whose(config: ModelConfig, headers: Mapping[int, Header], where: Path) -> tuple[str, dict[str, Entry]]:
    """The target whose names are all there."""
    names = {name for header in headers.values() for name in header.entries}
    tables = {}
    for target in TARGETS.values():
        if not target.unmet(config):
            tables[target.name] = weight_entries(target.name, config)
            if tables[target.name].keys() <= names:
                return target.name, tables[target.name]
    nearest = max(tables, key=lambda target: len(tables[target].keys() & names))
    missing = [name for name in tables[nearest] if name not in names]
    raise MappingError("the names are nobody's that could hold this model", where=where, got=some(sorted(names)),
                       expected=f"for {nearest} also {some(missing)}", do="check --model")  # fmt: skip


def _arrays(
    weights: Mapping[str, Entry], layout: Layout, whole: bool, headers: Mapping[int, Header], where: Path
) -> tuple[dict[str, Entry], dict[str, Place]]:
    """Every array of the files, with where its parts are."""
    first = {name: entry for rank in sorted(headers, reverse=True) for name, entry in headers[rank].entries.items()}
    if odd := [f"{name} {entry.dtype}" for name, entry in first.items() if entry.dtype not in ARRAYS]:
        raise FileError("arrays of a precision that is not read", where=where, got=some(odd))
    entries = with_dtypes(weights, {name: first[name].dtype for name in weights})
    entries |= state_entries(entries, _state_specs(entries, first))
    places, per_stage = {}, grid(layout).stage
    for name, entry in entries.items():
        stages = tuple(sorted({rank // per_stage for rank, header in headers.items() if name in header.entries}))
        places[name] = _fitting(entry, stages, layout, whole, first[name].shape, where)
    return entries, places


def _guess(entries: Mapping[str, Entry], places: Mapping[str, Place], over: Grid, whole: bool) -> Iterator[str]:
    tables = [name for name, entry in entries.items() if entry.vocabulary and places[name].shards > 1]
    if tables and over.tp > 1:
        word = "whole for tensor parallelism (vocab_emb_dp: True)" if whole else "split by tensor parallelism"
        yield f"{some(tables)}: taken as {word}, and then cut by the optimizer; shapes do not tell: see --vocabulary"


def _state_specs(weights: Mapping[str, Entry], first: Mapping[str, object]) -> Specs:
    """The other arrays as if they were whole: one that is named for a weight has its shape, or is no part of it."""
    found = {}
    for name, entry in first.items():
        if name not in weights:
            weight = weight_of(name, weights)
            dtype, shape = entry.dtype, entry.shape  # type: ignore[attr-defined]
            alike = weight is not None and len(weights[weight].shape) == len(shape)
            found[name] = (dtype, weights[weight].shape if alike and weight else shape)
    return found


def _fitting(entry: Entry, stages: tuple[int, ...], layout: Layout, whole: bool, shape: Shape, where: Path) -> Place:
    """The way to cut an array that leads to the shape of a rank's part.

    A table of tokens that tensor parallelism splits, and then the copies, has parts of the same shape as one that all
    ranks of the stage cut together, in another order: `whole` decides.

    Raises:
        MappingError: there is none.
    """
    over = grid(layout)
    axes = [None] if over.tp == 1 else [entry.axis]
    axes = axes if not entry.vocabulary or over.tp == 1 else [None, entry.axis] if whole else [entry.axis, None]
    for axis in axes:
        for shards in (1, replicas(axis, over))[: 1 + is_cut(entry.kind, layout)]:
            at = Place(axis, stages, shards)
            cut = part(entry, at, over, stages[0] * over.stage)
            if cut is not None and shape_of(cut) == shape:
                return at
    raise MappingError("no way to cut this array leads to the part that is there", where=f"{where}: {entry.name}",
                       got=list(shape), expected=f"a part of {list(entry.shape)}",
                       do="check --from and --model; enable_parallel_optimizer is zero3")  # fmt: skip
