"""Step 02: a Hugging Face directory → a MindPort directory, and back.

    read ── layout ── precision ── write ── read back ── manifest ── rename
    one tensor (or one fused group) at a time      all files     the directory appears, whole

A planned job runs the same way in both directions.
"""

from __future__ import annotations

import glob
import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mindport.config import ConfigReport, read_config, schema
from mindport.errors import FileError, MindPortError, UsageError, some
from mindport.files import atomic_directory, read_json, sha256, write_json
from mindport.weights import checkpoint
from mindport.weights.census import NotFinite, not_finite
from mindport.weights.companions import EXPORT_MARK, copy_companions, left_behind, set_dtype
from mindport.weights.conversion_report import Accounting, ConversionReport, Loss, WrittenFile
from mindport.weights.dtypes import CODES, cast, digest
from mindport.weights.jobs import Job, export_job, import_job
from mindport.weights.manifest import NAME, Manifest, Source, read_manifest, write_manifest
from mindport.weights.progress import progress as show_progress
from mindport.weights.readers import Reader, open_hf, unread
from mindport.weights.safetensors_io import fingerprint, read_header
from mindport.weights.store import load
from mindport.weights.writers import SafetensorsFiles, WeightWriter, nbytes


@dataclass(frozen=True)
class _Written:
    """What came of a job: file rows, losses, tensors not finite, tensors that read back as meant, numbers."""

    files: tuple[WrittenFile, ...]
    losses: tuple[Loss, ...]
    not_finite: tuple[NotFinite, ...]
    read_back: int
    tensors: int
    parameters: int


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
        src: a Hugging Face directory (to="mindspore") or a MindPort directory (to="huggingface").
        dst: the new directory.
        to: "mindspore" or "huggingface".
        dtype: "keep", "float32", "float16" or "bfloat16".
        file_format: "safetensors" or "ckpt" (MindSpore's own, to="mindspore" only).
        overwrite: replace an earlier result.
        progress: show how far it is, on stderr.
        allow: unknown keys of config.json that the user knows to be harmless.

    Raises:
        UsageError: the arguments make no sense together, or a value does not fit the precision.
        FileError: a file is missing, damaged or unsafe, or the target cannot be written.
        ConfigError: the configuration cannot go across.
        MappingError: tensors and table disagree.
    """
    src, dst = Path(src), Path(dst)
    _check_arguments(src, dst, to, dtype, file_format, overwrite)
    if to == "mindspore":
        return _import(src, dst, dtype, file_format, overwrite, progress, allow)
    return _export(src, dst, dtype, overwrite, progress)


def _import(
    src: Path, dst: Path, dtype: str, file_format: str, overwrite: bool, show: bool, allow: Sequence[str]
) -> ConversionReport:
    reader, config = open_hf(src), read_config(src, allow)
    job = import_job(reader, config, dtype)
    _check_disk(dst, job.layout.nbytes)
    with atomic_directory(dst, overwrite=overwrite) as aside:
        writer: WeightWriter
        if file_format == "ckpt":
            writer = checkpoint.CheckpointFile(aside / checkpoint.NAME)
        else:
            writer = SafetensorsFiles(aside, job.layout)
        written = _run(job, writer, aside, show)
        copy_companions(reader.directory, aside)
        accounting = _accounting(job, written)
        digests = {file.name: {"sha256": file.sha256, "bytes": file.bytes} for file in written.files}
        source = _source(reader, job)
        assert config.model is not None
        write_manifest(aside, Manifest(config.model, dtype, source, digests, asdict(accounting), list(allow)))
    notes = (*_import_notes(reader, config, job, dtype), *_leftovers(dst))
    return _report(src, dst, "mindspore", dtype, file_format, job, written, accounting, notes)


def _export(src: Path, dst: Path, dtype: str, overwrite: bool, show: bool) -> ConversionReport:
    weights = load(src)
    manifest = weights.manifest
    if manifest.source and Path(manifest.source.path).is_dir():
        _check_apart(Path(manifest.source.path), dst)  # the only copy of the original, maybe
    job = export_job(weights, dtype)
    _check_disk(dst, job.layout.nbytes)
    with atomic_directory(dst, overwrite=overwrite) as aside:
        written = _run(job, SafetensorsFiles(aside, job.layout), aside, show, manifest.source)
        copy_companions(src, aside)
        if asked := [name for name in (manifest.dtype, dtype) if name != "keep"]:
            set_dtype(aside, asked[-1])
        write_json(aside / EXPORT_MARK, {"mindport": manifest.mindport, "dtype": dtype})
    notes = (*_export_notes(manifest, dtype, written.files), *_leftovers(dst))
    accounting = _accounting(job, written)
    return _report(src, dst, "huggingface", dtype, "safetensors", job, written, accounting, notes)


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
            for move in job.moves:
                xs = [job.read(name) for name in move.sources]
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
    files, read_back, tensors, parameters = _read_back(directory, meant, source)
    return _Written(files, tuple(losses), tuple(odd), read_back, tensors, parameters)


def _read_back(
    directory: Path, meant: dict[str, str], source: Source | None
) -> tuple[tuple[WrittenFile, ...], int, int, int]:
    """The files, how many tensors read back as meant, how many there are, and how many numbers."""
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
    return tuple(files), len(meant) - len(wrong), len(found), parameters


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
    src: Path, dst: Path, to: str, dtype: str, file_format: str, job: Job, written: _Written,
    accounting: Accounting, notes: tuple[str, ...],
) -> ConversionReport:  # fmt: skip
    return ConversionReport(
        source=src, target=dst, to=to, dtype=dtype, file_format=file_format,
        model_type=job.plan.dialect.model_type, prefix=job.plan.prefix, accounting=accounting,
        read_back=written.read_back, fates=job.fates, losses=written.losses, files=written.files,
        notes=(*_odd_notes(written), *notes), not_finite=written.not_finite,
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
    if behind := left_behind(reader.directory):
        notes.append(f"not copied, since nothing here reads them: {some(behind, 5)}")
    said, held = config.model and config.model.dtype, {code for code, _ in job.targets.values()}
    if said and held != {CODES[said]}:
        notes.append(f"config.json says {said}; the weights written are {', '.join(sorted(held))}")
    return notes


def _export_notes(manifest: Manifest, dtype: str, files: Sequence[WrittenFile]) -> list[str]:
    source, notes = manifest.source, []
    same = sum(file.identical is True for file in files)
    changed = [d for d in (manifest.dtype, dtype) if d != "keep"]
    if changed and same < len(files):
        notes.append(
            f"the weights and config.json's dtype were brought to {changed[-1]}: bytes differ from the source's"
        )
    if source and source.dropped:
        notes.append(f"{len(source.dropped)} buffers were left behind on the way in: {some(source.dropped)}")
    if source and source.format != "safetensors":
        notes.append("the source was a .bin; its tensors are written as safetensors")
    return [*notes, f"{same} of {len(files)} files identical to the source's, byte for byte"]


def _odd_notes(written: _Written) -> list[str]:
    if not written.not_finite:
        return []
    names = some([f"{odd.tensor} ({odd.count:,})" for odd in written.not_finite])
    return [f"WARNING: NaN or infinite weights, as in the source: {names}; a model with them computes NaN"]


def _leftovers(dst: Path) -> list[str]:
    home, name = dst.resolve().parent, glob.escape(f".{dst.resolve().name}.")
    parts = sorted(path.name for end in ("part", "old") for path in home.glob(f"{name}*.{end}"))
    return [f"left by an interrupted run beside the target, safe to remove: {some(parts)}"] if parts else []


def _check_arguments(src: Path, dst: Path, to: str, dtype: str, file_format: str, overwrite: bool) -> None:
    for name, value, allowed in (
        ("to", to, ("mindspore", "huggingface")),
        ("dtype", dtype, ("keep", *CODES)),
        ("file_format", file_format, ("safetensors", "ckpt")),
    ):
        if value not in allowed:
            raise UsageError(f"no such {name}", got=repr(value), expected=", ".join(allowed))
    if to == "huggingface" and file_format == "ckpt":
        raise UsageError("Hugging Face directories hold safetensors", got=f"{to=}, {file_format=}")
    if src.is_file() and src.name != "config.json":
        raise UsageError("weights go with the config.json beside them; this file has another name", where=src,
                         do="name the directory of the model")  # fmt: skip
    _check_apart(src.parent if src.is_file() else src, dst)
    if overwrite and dst.is_dir() and any(dst.iterdir()):
        _check_replaceable(dst, to)


def _check_apart(src: Path, dst: Path) -> None:
    home, target = src.resolve(), dst.resolve()
    if target == home or target in home.parents or home in target.parents:
        raise UsageError("source and target must lie apart", got=f"{src} → {dst}", do="name another target")


def _check_replaceable(dst: Path, to: str) -> None:
    """An earlier result says so by its manifest; an empty or foreign file of that name says nothing."""
    mark = NAME if to == "mindspore" else EXPORT_MARK
    got = None if (dst / mark).exists() else f"a directory without {mark}"
    try:
        if got is None and to == "mindspore":
            read_manifest(dst)
        elif got is None and "mindport" not in read_json(dst / mark):
            got = f"a {mark} that is not ours"
    except (MindPortError, TypeError) as error:
        got = f"a {mark} that cannot be read: {getattr(error, 'what', error)}"
    if got is not None:
        raise UsageError("--overwrite replaces an earlier result only", where=dst, got=got,
                         do="name another target, or remove it yourself")  # fmt: skip


def _check_disk(dst: Path, needed: int) -> None:
    """Stop before the first byte when the disk cannot hold the result."""
    parent = next(path for path in dst.resolve().parents if path.exists())
    free = shutil.disk_usage(parent).free
    if needed > free:
        raise FileError("the disk cannot hold the result", where=parent, got=f"{_size(free)} free",
                        expected=_size(needed), do="free some space, or name another disk")  # fmt: skip


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e9:,.2f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.2f} MB"
