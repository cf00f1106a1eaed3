"""Step 02: a Hugging Face directory → a MindPort directory, or one for MindSpore Transformers, and back.

    read ── layout ── precision ── write ── read back ── manifest ── rename
    one tensor (or one fused group) at a time      all files     the directory appears, whole

A planned job runs the same way in every direction.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mindport.config import read_config, schema
from mindport.config.locate import is_reachable
from mindport.config.targets import TARGETS
from mindport.errors import FileError, MindPortError, UsageError
from mindport.files import atomic_directory, check_apart, read_json, sha256, sweep, write_json
from mindport.weights import checkpoint
from mindport.weights.ahead import ahead, meanwhile
from mindport.weights.census import NotFinite, not_finite
from mindport.weights.companions import EXPORT_MARK, copy_companions, rewrite_config, set_dtype
from mindport.weights.conversion_report import Accounting, ConversionReport, Loss
from mindport.weights.dtypes import CODES, cast, digest
from mindport.weights.jobs import Job, export_job, import_job
from mindport.weights.manifest import NAME, Manifest, Source, read_manifest, write_manifest
from mindport.weights.notes import export_notes, import_notes, leftovers, odd_notes
from mindport.weights.progress import progress as show_progress
from mindport.weights.read_back import ReadBack, read_back
from mindport.weights.readers import Reader, open_hf
from mindport.weights.store import Weights, check_digests, open_converted
from mindport.weights.writers import SafetensorsFiles, WeightWriter, nbytes

HUGGINGFACE = "huggingface"
RATE = 500e6  # bytes a second, of `mindport bench convert` on two cores


@dataclass(frozen=True)
class _Written:
    """What came of a job: what was read back, losses, tensors not finite."""

    found: ReadBack
    losses: tuple[Loss, ...]
    not_finite: tuple[NotFinite, ...]


@dataclass(frozen=True)
class _Options:
    """The arguments of `convert`."""

    src: Path
    dst: Path
    to: str
    dtype: str
    file_format: str
    overwrite: bool
    progress: bool


def convert(
    src: Path | str,
    dst: Path | str,
    to: str = "mindspore",
    dtype: str = "keep",
    file_format: str = "safetensors",
    overwrite: bool = False,
    progress: bool = True,
    allow: Sequence[str] = (),
    padded_vocab: int | None = None,
) -> ConversionReport:
    """Convert the weights of a directory; the target appears whole or not at all.

    Args:
        src: a Hugging Face directory, or one that this function wrote.
        dst: the new directory.
        to: "huggingface" (from a converted directory), "mindspore", or another name of
            `mindport.config.targets.TARGETS`.
        dtype: "keep", "float32", "float16" or "bfloat16".
        file_format: "safetensors", or "ckpt" (MindSpore's own; not to="huggingface").
        overwrite: replace an earlier result.
        progress: show how far it is, on stderr.
        allow: unknown keys of config.json that the user knows to be harmless.
        padded_vocab: rows of the embedding and of the head in `src`, where those beyond vocab_size are padding.

    Raises:
        UsageError: the arguments make no sense together, or a value does not fit the precision.
        FileError: a file is missing, damaged or unsafe, or the target cannot be written.
        ConfigError: the configuration cannot go across, or the target cannot hold such a model.
        MappingError: tensors and table disagree.
    """
    src, dst = Path(src), Path(dst)
    _check_arguments(src, dst, to, dtype, file_format, overwrite)
    options = _Options(src, dst, to, dtype, file_format, overwrite, progress)
    if to != HUGGINGFACE and not (src / NAME).exists():
        return _import(options, allow, padded_vocab)
    if padded_vocab is not None:
        raise UsageError("padding is declared when a Hugging Face directory is converted; its manifest knows it since",
                         got=f"{padded_vocab=}", do="leave it out")  # fmt: skip
    return _export(options) if to == HUGGINGFACE else _rename(options)


def _import(options: _Options, allow: Sequence[str], padded_vocab: int | None) -> ConversionReport:
    reader, config = open_hf(options.src), read_config(options.src, allow, padded_vocab)
    job = import_job(reader, config, options.dtype, TARGETS[options.to])
    assert config.model is not None
    notes = import_notes(reader, config, job)
    manifest = Manifest(config.model, options.dtype, None, {}, {}, list(allow), target=options.to)
    with meanwhile(lambda: {path.name: sha256(path) for path in reader.shards.files}) as hashes:
        return _write(options, job, manifest, reader.directory, notes, lambda: _source(reader, job, hashes()))


def _rename(options: _Options) -> ConversionReport:
    """From one target's names to another's."""
    weights = _open(options)
    before, target = weights.manifest, TARGETS[options.to]
    if before.target == target.name:
        raise UsageError("this directory is converted already", where=options.src, got=f"written for {before.target}",
                         do="load it, or convert it with --to huggingface or another target")  # fmt: skip
    job = export_job(weights, options.dtype, target)
    dtype = before.dtype if options.dtype == "keep" else options.dtype
    manifest = replace(before, dtype=dtype, target=target.name)
    with _proving(weights) as prove:
        return _write(options, job, manifest, options.src, [f"renamed from {before.target}"], prove)


def _open(options: _Options) -> Weights:
    """The converted directory; the one that it came from may be the only copy of the original."""
    weights = open_converted(options.src, check=False)  # `_proving` does, while it is read
    if not (options.src / "config.json").is_file():
        raise FileError("a MindPort directory without its config.json, which the result needs", where=options.src,
                        do="put the source's back, or convert again")  # fmt: skip
    source = weights.manifest.source
    if source and is_reachable(Path(source.path)):
        check_apart(Path(source.path), options.dst)
    return weights


@contextlib.contextmanager
def _proving(weights: Weights) -> Iterator[Callable[[], Source | None]]:
    """Compare a converted directory with its digests while it is read; yields a function that waits for it and gives
    the source that the manifest names.

    A file that was changed is what is said, whatever else went wrong because of it.
    """

    def source() -> Source | None:
        check_digests(weights.directory, weights.manifest)
        return weights.manifest.source

    with meanwhile(source) as prove:
        try:
            yield prove
        except MindPortError:
            prove()
            raise


def _write(
    options: _Options, job: Job, manifest: Manifest, companions: Path, notes: Sequence[str],
    source: Callable[[], Source | None],
) -> ConversionReport:  # fmt: skip
    """Run a job into a new converted directory; `source` is asked for when the weights are done."""
    dst, target = options.dst, TARGETS[options.to]
    swept = _before(options, job)
    with atomic_directory(dst, overwrite=options.overwrite) as aside:
        writer: WeightWriter
        if options.file_format == "ckpt":
            writer = checkpoint.CheckpointFile(aside / checkpoint.NAME)
        else:
            writer = SafetensorsFiles(aside, job.layout)
        written = _run(job, writer, aside, options.progress)
        copy_companions(companions, aside, manifest.rewritten)
        rewritten = rewrite_config(aside, target, job.plan.config)
        accounting = _accounting(job, written)
        digests = {file.name: {"sha256": file.sha256, "bytes": file.bytes} for file in written.found.files}
        done = replace(manifest, source=source(), files=digests, accounting=asdict(accounting), rewritten=rewritten)
        write_manifest(aside, done)
    return _report(options, job, written, accounting, (*notes, *leftovers(dst, swept)))


def _export(options: _Options) -> ConversionReport:
    src, dst = options.src, options.dst
    weights = _open(options)
    manifest = weights.manifest
    job = export_job(weights, options.dtype)
    swept = _before(options, job)
    with _proving(weights) as prove, atomic_directory(dst, overwrite=options.overwrite) as aside:
        written = _run(job, SafetensorsFiles(aside, job.layout), aside, options.progress, manifest.source)
        prove()
        copy_companions(src, aside, manifest.rewritten)
        if asked := [name for name in (manifest.dtype, options.dtype) if name != "keep"]:
            set_dtype(aside, asked[-1])
        mark = {"mindport": manifest.mindport, "dtype": options.dtype, "of": manifest.digests}
        write_json(aside / EXPORT_MARK, mark)
    notes = (*export_notes(manifest, options.dtype, written.found.files), *leftovers(dst, swept))
    return _report(options, job, written, _accounting(job, written), notes)


def _run(job: Job, writer: WeightWriter, directory: Path, show: bool, source: Source | None = None) -> _Written:
    """Move every tensor, then read back every file.

    Raises:
        FileError: what stands in a file is not what was meant.
    """
    meant: dict[str, str] = {}
    losses: list[Loss] = []
    odd: list[NotFinite] = []
    total = sum(nbytes(*job.sources[name]) for move in job.moves for name in move.sources)
    done = False
    try:
        with show_progress("converting", total, show=show) as advance:
            for move, xs in ahead(lambda move: [job.read(name) for name in move.sources], job.moves):
                for name, x in zip(move.targets, move.turn(xs), strict=True):
                    y, error = cast(name, x, job.targets[name][0])
                    writer.write(name, y)
                    meant[name] = digest(y)
                    losses += [Loss(name, error)] * (error > 0)
                    odd += [NotFinite(name, count)] if (count := not_finite(y)) else []
                advance(sum(x.nbytes for x in xs))
        done = True
    finally:
        writer.close(complete=done)
    return _Written(read_back(directory, meant, source), tuple(losses), tuple(odd))


def _accounting(job: Job, written: _Written) -> Accounting:
    repeated = sum(math.prod(job.targets[name][1]) for name in job.restored)
    return Accounting(
        source_tensors=len(job.sources),
        converted=len({name for move in job.moves for name in move.sources}),
        dropped=len(job.plan.dropped),
        tied=len(job.plan.tied),
        written=written.found.tensors,
        expected=len(job.targets),
        parameters=written.found.parameters - repeated,
        schema_parameters=schema.count(job.plan.config),
        bytes_read=sum(nbytes(*spec) for spec in job.sources.values() if spec[0] in CODES.values()),
        bytes_written=sum(file.bytes for file in written.found.files),
    )


def _report(
    options: _Options, job: Job, written: _Written, accounting: Accounting, notes: tuple[str, ...]
) -> ConversionReport:  # fmt: skip
    return ConversionReport(
        source=options.src, target=options.dst, to=options.to, dtype=options.dtype, file_format=options.file_format,
        model_type=job.plan.config.model_type, prefix=job.plan.prefix, accounting=accounting,
        read_back=written.found.tensors, fates=job.fates, losses=written.losses, files=written.found.files,
        notes=(*odd_notes(written.not_finite), *notes), not_finite=written.not_finite,
    )  # fmt: skip


def _source(reader: Reader, job: Job, hashes: Mapping[str, str]) -> Source:
    index = reader.shards.index
    return Source(
        path=str(reader.directory.resolve()),
        model_type=job.plan.dialect.model_type,
        prefix=job.plan.prefix,
        format=reader.format,
        files={
            name: {"sha256": whole, "size": (reader.directory / name).stat().st_size} for name, whole in hashes.items()
        },
        tensors={name: info.file for name, info in reader.infos.items()},
        metadata={file: header.metadata for file, header in reader.headers.items()},
        tied_duplicates=list(job.plan.tied),
        dropped=list(job.plan.dropped),
        headers={file: header.text.decode() for file, header in reader.headers.items()},
        index=index.read_text(encoding="utf-8") if index and reader.format == "safetensors" else None,
    )


def _check_arguments(src: Path, dst: Path, to: str, dtype: str, file_format: str, overwrite: bool) -> None:
    for name, value, allowed in (
        ("to", to, (*TARGETS, HUGGINGFACE)),
        ("dtype", dtype, ("keep", *CODES)),
        ("file_format", file_format, ("safetensors", "ckpt")),
    ):
        if value not in allowed:
            raise UsageError(f"no such {name}", got=repr(value), expected=", ".join(allowed))
    if to == HUGGINGFACE and file_format == "ckpt":
        raise UsageError("Hugging Face directories hold safetensors", got=f"{to=}, {file_format=}")
    if src.is_file() and src.name != "config.json":
        raise UsageError("weights go with the config.json beside them; this file has another name", where=src,
                         do="name the directory of the model")  # fmt: skip
    check_apart(src.parent if src.is_file() else src, dst)
    if overwrite and dst.is_dir() and any(dst.iterdir()):
        _check_replaceable(dst, to)


def _check_replaceable(dst: Path, to: str) -> None:
    """An earlier result says so by its manifest; an empty or foreign file of that name says nothing."""
    mark = EXPORT_MARK if to == HUGGINGFACE else NAME
    got = None if (dst / mark).exists() else f"a directory without {mark}"
    try:
        if got is None and mark == NAME:
            read_manifest(dst)
        elif got is None and "mindport" not in read_json(dst / mark):
            got = f"a {mark} that is not ours"
    except (MindPortError, TypeError) as error:
        got = f"a {mark} that cannot be read: {getattr(error, 'what', error)}"
    if got is not None:
        raise UsageError("--overwrite replaces an earlier result only", where=dst, got=got,
                         do="name another target, or remove it yourself")  # fmt: skip


def _before(options: _Options, job: Job) -> list[Path]:
    """Say what it will take, and stop before the first byte when the disk cannot hold the result.

    Returns:
        What dead runs had left beside the target, swept away: a restart needs the room.
    """
    swept = sweep(options.dst)
    parent, needed = next(path for path in options.dst.resolve().parents if path.exists()), job.layout.nbytes
    free = shutil.disk_usage(parent).free
    if options.progress and needed > RATE:  # a short job says nothing
        largest = max((nbytes(*spec) for spec in (*job.sources.values(), *job.targets.values())), default=0)
        print(f"converting {len(job.sources)} tensors: about {needed / RATE:,.0f} s, {_size(needed)} of disk "
              f"({_size(free)} free), at most three tensors in memory, the largest of {_size(largest)}",
              file=sys.stderr, flush=True)  # fmt: skip
    if needed > free:
        raise FileError("the disk cannot hold the result", where=parent, got=f"{_size(free)} free",
                        expected=_size(needed), do="free some space, or name another disk")  # fmt: skip
    return swept


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.2f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.2f} MB"
