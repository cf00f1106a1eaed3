"""What a conversion says beside its figures: one line for each thing that a user might not expect."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from mindport.config import ConfigReport
from mindport.config.read import TEXT
from mindport.config.wrappers import wrappers_of
from mindport.errors import some
from mindport.weights.census import NotFinite
from mindport.weights.companions import left_behind
from mindport.weights.conversion_report import WrittenFile
from mindport.weights.dtypes import CODES
from mindport.weights.jobs import Job
from mindport.weights.manifest import Manifest
from mindport.weights.readers import Reader, unread


def import_notes(reader: Reader, config: ConfigReport, job: Job) -> list[str]:
    """Of a Hugging Face directory's conversion."""
    notes = [f"{name}: a copy of the embedding, which the model shares; equal byte for byte" for name in job.plan.tied]
    if wrapped := wrappers_of(config.dialect, job.plan.prefix):
        notes.append(f"names begin with {wrapped!r}, a wrapper's: taken off, and put back on the way back")
    texts = [row for row in config.keys if row.note.endswith(TEXT)]
    notes += [f"config.json: {row.key} {row.value!r}: {row.note.rpartition('; ')[2]}" for row in texts]
    model = job.plan.config
    if model.padded_vocab is not None:
        count = model.vocab_rows - model.vocab_size
        notes.append(f"{model.vocab_size} tokens in {model.vocab_rows} rows: the last {count} are padding, as declared")
    if job.plan.dropped:
        notes.append(f"{len(job.plan.dropped)} buffers left behind, named by the table: {some(job.plan.dropped)}")
    if others := unread(reader):
        notes.append(f"other weight files lie there too and were not read: {some(others)}")
    if behind := left_behind(reader.directory):
        notes.append(f"not copied, since nothing here reads them: {some(behind, 5)}")
    said, held = model.dtype, {code for code, _ in job.targets.values()}
    if said and held != {CODES[said]}:
        notes.append(f"config.json says {said}; the weights written are {', '.join(sorted(held))}")
    return notes


def export_notes(manifest: Manifest, dtype: str, files: Sequence[WrittenFile]) -> list[str]:
    """Of the way back."""
    source, notes = manifest.source, []
    same = sum(file.identical is True for file in files)
    changed = [d for d in (manifest.dtype, dtype) if d != "keep"]
    if manifest.steps:
        notes.append(f"weights after {manifest.steps:,} steps of training: values differ from the source's")
    if changed and same < len(files):
        notes.append(
            f"the weights and config.json's dtype were brought to {changed[-1]}: bytes differ from the source's"
        )
    if source and source.dropped:
        notes.append(f"{len(source.dropped)} buffers were left behind on the way in: {some(source.dropped)}")
    if source and source.format != "safetensors":
        notes.append("the source was a .bin; its tensors are written as safetensors")
    return [*notes, f"{same} of {len(files)} files identical to the source's, byte for byte"]


def odd_notes(not_finite: Sequence[NotFinite]) -> list[str]:
    """Of values that are no numbers."""
    if not not_finite:
        return []
    names = some([f"{odd.tensor} ({odd.count:,})" for odd in not_finite])
    return [f"WARNING: NaN or infinite weights, as in the source: {names}; a model with them computes NaN"]


def leftovers(dst: Path, swept: Sequence[Path]) -> list[str]:
    """Of what interrupted runs left beside the target: what was swept away, and what nobody can tell is ours."""
    gone = [f"swept away, left beside the target by a run that died: {some([path.name for path in swept])}"]
    home, name = dst.resolve().parent, glob.escape(f".{dst.resolve().name}.")
    parts = sorted(path.name for end in ("part", "old") for path in home.glob(f"{name}*.{end}"))
    left = [f"left beside the target by an interrupted run, or by one that is still at work: {some(parts)}"]
    return gone * bool(swept) + left * bool(parts)
