"""The small files of a new directory: manifests, configuration, tokenizer, digests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mindport.mindformers import Layout
from mindport.parallel.reshard import manifest as resharded
from mindport.parallel.reshard.report import RankFile
from mindport.parallel.reshard.source import Source
from mindport.parallel.reshard.stream import Arrangement
from mindport.training.checkpoint.record import write_record
from mindport.training.checkpoint.write import STATE
from mindport.weights.companions import copy_companions
from mindport.weights.manifest import write_manifest
from mindport.weights.safetensors_io import read_header


def finish_ranks(directory: Path, source: Source, layout: Layout, target: Arrangement) -> tuple[RankFile, ...]:
    """Beside the rank folders: what makes a MindPort directory of them again, and the manifest."""
    origin = directory / resharded.ORIGIN
    origin.mkdir()
    copy_companions(source.origin, origin)
    write_manifest(origin, source.manifest)
    if source.record:
        write_record(origin, source.record)
    ranks = {int(path.parent.name.removeprefix("rank_")): path for path in directory.glob("rank_*/*")}
    names = [path.relative_to(directory).as_posix() for path in sorted(directory.rglob("*")) if path.is_file()]
    files = {name: resharded.digest_of(directory / name) for name in names}
    told = {rank: ranks[rank].relative_to(directory).as_posix() for rank in sorted(ranks)}
    resharded.write(directory, resharded.Manifest(
        str(layout), {"path": str(source.path.resolve()), "layout": str(source.layout), "files": source.files}, told,
        files, source.entries, dict(target.places),
    ))  # fmt: skip
    held = {rank: sum(rank // target.grid.stage in place.stages for place in target.places.values()) for rank in told}
    return tuple(RankFile(rank, name, held[rank], files[name]["bytes"], files[name]["sha256"])
                 for rank, name in told.items())  # fmt: skip


def finish_whole(directory: Path, source: Source, layout: Layout, target: Arrangement) -> tuple[RankFile, ...]:
    """A MindPort directory; with a training's state and its record, the checkpoint of a training."""
    copy_companions(source.origin, directory)
    arrays = {path.name: resharded.digest_of(path) for path in sorted(directory.glob("*.safetensors"))}
    weights = {name: known for name, known in arrays.items() if name.startswith("model")}
    write_manifest(directory, replace(source.manifest, files=weights))
    if source.record:
        rest = [path for path in directory.iterdir() if path.name not in arrays]
        files = {name: arrays[name] for name in (*weights, STATE)}
        files |= {path.name: resharded.digest_of(path) for path in rest}
        write_record(directory, replace(source.record, files=files))
    return tuple(RankFile(0, name, len(read_header(directory / name).entries), known["bytes"], known["sha256"])
                 for name, known in arrays.items())  # fmt: skip
