"""Step 02: a Hugging Face directory → a MindPort directory, or one for MindSpore Transformers, and back.

    read ── layout ── precision ── write ── read back ── manifest ── rename
    one tensor (or one fused group) at a time      all files     the directory appears, whole

A planned job runs the same way in every direction.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mindport.config import ConfigReport, read_config, schema
from mindport.config.targets import TARGETS
from mindport.errors import FileError, UsageError, some
from mindport.files import atomic_directory, sha256
from mindport.weights import checkpoint
from mindport.weights.companions import copy_companions, rewrite_config
from mindport.weights.conversion_report import Accounting, ConversionReport, Loss, WrittenFile
from mindport.weights.dtypes import CODES, cast, digest
from mindport.weights.jobs import Job, export_job, import_job
from mindport.weights.manifest import NAME, Manifest, Source, write_manifest
from mindport.weights.progress import progress as show_progress
from mindport.weights.readers import Reader, open_hf, unread
from mindport.weights.safetensors_io import fingerprint, read_header
from mindport.weights.store import open_converted
from mindport.weights.writers import SafetensorsFiles, WeightWriter, nbytes

HUGGINGFACE = "huggingface"


@dataclass(frozen=True)
class _Written:
    """What came of a job: file rows, digests that were meant, losses, tensors that read back as meant, numbers."""

    files: tuple[WrittenFile, ...]
    losses: tuple[Loss, ...]
    read_back: int
    tensors: int
    parameters: int


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
) -> ConversionReport:
    """Convert the weights of a directory; the target appears whole or not at all.

    Args:
        src: a Hugging Face directory, or one that this function wrote.
        dst: the new directory.
        to: "huggingface" (from a converted directory), "mindspore", or another name of
            `mindport.config.targets.TARGETS`.
        dtype: "keep", "float32", "float16" or "bfloat16".
        file_format: "safetensors" or "ckpt" (MindSpore's own, to="mindspore" only).
        overwrite: replace an earlier result.
        progress: show how far it is, on stderr.
        allow: unknown keys of config.json that the user knows to be harmless.

    Raises:
        UsageError: the arguments make no sense together, or a value does not fit the precision.
        FileError: a file is missing, damaged or unsafe, or the target cannot be written.
        ConfigError: the configuration cannot go across, or the target cannot hold such a model.
        MappingError: tensors and table disagree.
    """
    src, dst = Path(src), Path(dst)
    _check_arguments(src, dst, to, dtype, file_format, overwrite)
    options = _Options(src, dst, to, dtype, file_format, overwrite, progress)
    if to == HUGGINGFACE:
        return _export(options)
    return _rename(options) if (src / NAME).exists() else _import(options, allow)


def _import(options: _Options, allow: Sequence[str]) -> ConversionReport:
    reader, config = open_hf(options.src), read_config(options.src, allow)
    job = import_job(reader, config, options.dtype, TARGETS[options.to])
    assert config.model is not None
    manifest = Manifest(config.model, options.dtype, _source(reader, job), {}, {}, target=options.to)
    return _write(options, job, manifest, reader.directory, _import_notes(reader, config, job, options.dtype))


def _rename(options: _Options) -> ConversionReport:
    """From one target's names to another's."""
    weights = open_converted(options.src)
    before, target = weights.manifest, TARGETS[options.to]
    if before.target == target.name:
        raise UsageError("this directory is converted already", where=options.src, got=f"written for {before.target}",
                         do="load it, or convert it with --to huggingface or another target")  # fmt: skip
    job = export_job(weights, options.dtype, target)
    dtype = before.dtype if options.dtype == "keep" else options.dtype
    manifest = replace(before, dtype=dtype, target=target.name)
    return _write(options, job, manifest, options.src, [f"renamed from {before.target}"])


def _write(
    options: _Options, job: Job, manifest: Manifest, companions: Path, notes: Sequence[str]
) -> ConversionReport:  # fmt: skip
    """Run a job into a new converted directory."""
    dst, target = options.dst, TARGETS[options.to]
    _check_disk(dst, job.layout.nbytes)
    with atomic_directory(dst, overwrite=options.overwrite) as aside:
        writer: WeightWriter
        if options.file_format == "ckpt":
            writer = checkpoint.CheckpointFile(aside / checkpoint.NAME)
        else:
            writer = SafetensorsFiles(aside, job.layout)
        written = _run(job, writer, aside, options.progress)
        copy_companions(companions, aside, manifest.rewritten)
        rewritten = rewrite_config(aside, target)
        accounting = _accounting(job, written)
        digests = {file.name: {"sha256": file.sha256, "bytes": file.bytes} for file in written.files}
        write_manifest(aside, replace(manifest, files=digests, accounting=asdict(accounting), rewritten=rewritten))
    return _report(options, job, written, accounting, (*notes, *_leftovers(dst)))


def _export(options: _Options) -> ConversionReport:
    src, dst = options.src, options.dst
    weights = open_converted(src)
    manifest = weights.manifest
    job = export_job(weights, options.dtype)
    _check_disk(dst, job.layout.nbytes)
    with atomic_directory(dst, overwrite=options.overwrite) as aside:
        written = _run(job, SafetensorsFiles(aside, job.layout), aside, options.progress, manifest.source)
        copy_companions(src, aside, manifest.rewritten)
    notes = (*_export_notes(manifest, options.dtype, written.files), *_leftovers(dst))
    return _report(options, job, written, _accounting(job, written), notes)


def _run(job: Job, writer: WeightWriter, directory: Path, show: bool, source: Source | None = None) -> _Written:
    """Move every tensor, then read back every file.

    Raises:
        FileError: what stands in a file is not what was meant.
    """
    meant: dict[str, str] = {}
    losses: list[Loss] = []
    total = sum(nbytes(*job.sources[name]) for move in job.moves for name in move.sources)
    done = False
    try:
        with show_progress("converting", total, show=show) as advance:
            for move in job.moves:
                xs = [job.read(name) for name in move.sources]
                for name, x in zip(move.targets, move.turn(xs), strict=True):
                    y, error = cast(name, x, job.targets[name][0])
                    writer.write(name, y)
                    meant[name] = digest(y)
                    losses += [Loss(name, error)] * (error > 0)
                advance(sum(x.nbytes for x in xs))
        done = True
    finally:
        writer.close(complete=done)
    return _read_back(directory, meant, tuple(losses), source)


def _read_back(directory: Path, meant: dict[str, str], losses: tuple[Loss, ...], source: Source | None) -> _Written:
    found: dict[str, str] = {}
    files, parameters = [], 0
    for path in sorted(directory.iterdir()):
        if path.name == checkpoint.NAME:
            arrays = checkpoint.read_checkpoint(path)
            whole, tensors = sha256(path), {name: digest(x) for name, x in arrays.items()}
            parameters += sum(x.size for x in arrays.values())
        elif path.suffix == ".safetensors":
            whole, tensors = fingerprint(path)
            parameters += sum(math.prod(entry.shape) for entry in read_header(path).entries.values())
        else:
            continue
        found |= tensors
        original = source.files.get(path.name) if source else None
        same = None if original is None else original["sha256"] == whole
        files.append(WrittenFile(path.name, whole, path.stat().st_size, same))
    wrong = sorted(name for name in meant.keys() | found.keys() if meant.get(name) != found.get(name))
    if wrong:
        raise FileError("what was written does not read back as it was meant; nothing was kept", where=directory,
                        got=some(wrong), do="check the disk and the memory, then convert again")  # fmt: skip
    return _Written(tuple(files), losses, len(meant) - len(wrong), len(found), parameters)


def _accounting(job: Job, written: _Written) -> Accounting:
    repeated = sum(math.prod(job.targets[name][1]) for name in job.restored)
    return Accounting(
        source_tensors=len(job.sources),
        converted=len({name for move in job.moves for name in move.sources}),
        dropped=len(job.plan.dropped),
        tied=len(job.plan.tied),
        written=written.tensors,
        expected=len(job.targets),
        parameters=written.parameters - repeated,
        schema_parameters=schema.count(job.plan.config),
        bytes_read=sum(nbytes(*spec) for spec in job.sources.values() if spec[0] in CODES.values()),
        bytes_written=sum(file.bytes for file in written.files),
    )


def _report(
    options: _Options, job: Job, written: _Written, accounting: Accounting, notes: tuple[str, ...]
) -> ConversionReport:  # fmt: skip
    return ConversionReport(
        source=options.src, target=options.dst, to=options.to, dtype=options.dtype, file_format=options.file_format,
        model_type=job.plan.config.model_type, prefix=job.plan.prefix, accounting=accounting,
        read_back=written.read_back, fates=job.fates, losses=written.losses, files=written.files, notes=notes,
    )  # fmt: skip


def _source(reader: Reader, job: Job) -> Source:
    index = reader.shards.index
    return Source(
        path=str(reader.directory.resolve()),
        model_type=job.plan.dialect.model_type,
        prefix=job.plan.prefix,
        format=reader.format,
        files={path.name: {"sha256": sha256(path), "size": path.stat().st_size} for path in reader.shards.files},
        tensors={name: info.file for name, info in reader.infos.items()},
        metadata={file: header.metadata for file, header in reader.headers.items()},
        tied_duplicates=list(job.plan.tied),
        dropped=list(job.plan.dropped),
        headers={file: header.text.decode() for file, header in reader.headers.items()},
        index=index.read_text(encoding="utf-8") if index and reader.format == "safetensors" else None,
    )


def _import_notes(reader: Reader, config: ConfigReport, job: Job, dtype: str) -> list[str]:
    notes = [f"{name}: a copy of the embedding, which the model shares; equal byte for byte" for name in job.plan.tied]
    if job.plan.dropped:
        notes.append(f"{len(job.plan.dropped)} buffers left behind, named by the table: {some(job.plan.dropped)}")
    if others := unread(reader):
        notes.append(f"other weight files lie there too and were not read: {some(others)}")
    said, held = config.model and config.model.dtype, {code for code, _ in job.targets.values()}
    if said and held != {CODES[said]}:
        notes.append(f"config.json says {said}; the weights written are {', '.join(sorted(held))}")
    return notes


def _export_notes(manifest: Manifest, dtype: str, files: Sequence[WrittenFile]) -> list[str]:
    source, notes = manifest.source, []
    same = sum(file.identical is True for file in files)
    changed = [d for d in (manifest.dtype, dtype) if d != "keep"]
    if changed and same < len(files):
        notes.append(f"the weights were brought to {changed[-1]}: bytes differ from the source's")
    if source and source.dropped:
        notes.append(f"{len(source.dropped)} buffers were left behind on the way in: {some(source.dropped)}")
    if source and source.format != "safetensors":
        notes.append("the source was a .bin; its tensors are written as safetensors")
    return [*notes, f"{same} of {len(files)} files identical to the source's, byte for byte"]


def _leftovers(dst: Path) -> list[str]:
    parts = sorted(path.name for path in dst.resolve().parent.glob(f".{dst.name}.*.part"))
    return [f"left by an interrupted run beside the target, safe to remove: {some(parts)}"] if parts else []


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
    home, target = src.resolve(), dst.resolve()
    if target == home or target in home.parents or (home.is_dir() and home in target.parents):
        raise UsageError("source and target must lie apart", got=f"{src} → {dst}", do="name another target")
    mark = "config.json" if to == HUGGINGFACE else NAME
    if overwrite and dst.is_dir() and any(dst.iterdir()) and not (dst / mark).exists():
        raise UsageError("--overwrite replaces an earlier result only", where=dst, got=f"a directory without {mark}",
                         do="name another target, or remove it yourself")  # fmt: skip


def _check_disk(dst: Path, needed: int) -> None:
    """Stop before the first byte when the disk cannot hold the result."""
    parent = next(path for path in dst.resolve().parents if path.exists())
    free = shutil.disk_usage(parent).free
    if needed > free:
        raise FileError("the disk cannot hold the result", where=parent, got=f"{free / 1e9:,.2f} GB free",
                        expected=f"{needed / 1e9:,.2f} GB", do="free some space, or name another disk")  # fmt: skip
