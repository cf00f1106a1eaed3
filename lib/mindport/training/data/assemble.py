"""Shards to rows, in the order of the text, and to the split that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindport.training.config import DataConfig
from mindport.training.data.division import Unique, place, select, threshold
from mindport.training.data.encoder import Encoded
from mindport.training.data.files import HELD_OUT, SPLITS, TRAIN
from mindport.training.data.layouts import Counts, Packed, Padded
from mindport.training.data.record_writer import RecordWriter
from mindport.training.data.shard import read_keys, read_shard

Shards = Sequence[tuple[str, Path]]  # split and file


@dataclass(frozen=True)
class Assembled:
    """What was written.

    Attributes:
        counts: of each split.
        files: of each split and length.
        leaked: held-out documents that were left out, since the text to learn from has them.
        shared: texts to learn from that are held out all the same; none, unless the division is at fault.
    """

    counts: dict[str, Counts]
    files: dict[str, dict[int, list[str]]]
    leaked: int
    shared: int

    def splits(self) -> dict[str, dict[str, Any]]:
        """As the manifest has it."""
        return {split: {"counts": _as_json(self.counts[split]), "files": _text_keys(self.files[split])}
                for split in SPLITS}  # fmt: skip


class _Split:
    """Rows of one split: its layout, and a writer for each length."""

    def __init__(self, name: str, config: DataConfig, pad: int, directory: Path) -> None:
        self.name, self.directory, self.counts = name, directory, Counts()
        self.unique = Unique() if config.unique else None
        self.layout: Packed | Padded = (
            Packed(config.tokens, pad, self.counts) if config.layout == "packed" else
            Padded(sorted({*config.buckets, config.tokens}), pad, self.counts)
        )  # fmt: skip
        self.writers: dict[int, RecordWriter] = {}

    def feed(self, encoded: Encoded) -> None:
        if self.unique:
            fresh = self.unique(encoded)
            self.counts.duplicates += int(encoded.starts.sum() - fresh.starts.sum())
            encoded = fresh
        self.counts.documents += int(encoded.starts.sum())
        self._write(self.layout.feed(encoded.tokens, encoded.lengths))

    def close(self) -> dict[int, list[str]]:
        self._write(self.layout.finish())
        return {length: writer.close() for length, writer in sorted(self.writers.items())}

    def _write(self, found: Iterator[tuple[int, np.ndarray]]) -> None:
        for length, rows in found:
            if length not in self.writers:
                self.writers[length] = RecordWriter(self.directory, self.name, length)
            self.writers[length].add(rows)


def assemble(shards: Shards, config: DataConfig, seed: int, pad: int, directory: Path) -> Assembled:
    """Write all rows.

    Args:
        shards: in the order of the text.
        config: which rows.
        seed: of the held-out share.
        pad: the id in padding.
        directory: where the files go.
    """
    splits = {name: _Split(name, config, pad, directory) for name in SPLITS}
    leaks = _Leaks(shards) if config.held_out else None
    below = 0.0 if leaks else threshold((read_keys(path) for _, path in shards), seed, config.held_out_share)
    learned, measured = [], [np.empty(0, np.uint64)]
    for split, path in shards:
        encoded = read_shard(path)
        splits[split].counts.empty += encoded.empty
        held = np.full(len(encoded.keys), split == HELD_OUT) if leaks else place(encoded.keys, seed) < below
        splits[TRAIN].feed(select(encoded, ~held))
        kept = select(encoded, held)
        kept = leaks.without(kept) if leaks else kept
        splits[HELD_OUT].feed(kept)
        learned.append(~held)
        measured.append(kept.keys)
    files = {name: split.close() for name, split in splits.items()}
    counts = {name: split.counts for name, split in splits.items()}
    return Assembled(counts, files, leaks.count if leaks else 0, _shared(shards, learned, np.concatenate(measured)))


def _shared(shards: Shards, learned: Sequence[np.ndarray], measured: np.ndarray) -> int:
    """How many texts that are learned from are among those that are measured on."""
    keys = (read_keys(path)[chosen] for (_, path), chosen in zip(shards, learned, strict=True))
    return sum(int(np.isin(each, measured).sum()) for each in keys)


class _Leaks:
    """Held-out documents whose text is to be learned from, too."""

    def __init__(self, shards: Shards) -> None:
        held = [read_keys(path) for split, path in shards if split == HELD_OUT]
        wanted = np.unique(np.concatenate([*held, np.empty(0, np.uint64)]))
        both = [np.intersect1d(read_keys(path), wanted) for split, path in shards if split == TRAIN]
        self.keys = np.unique(np.concatenate([*both, np.empty(0, np.uint64)]))
        self.count = 0

    def without(self, encoded: Encoded) -> Encoded:
        """The others."""
        leaked = np.isin(encoded.keys, self.keys)
        self.count += int(leaked.sum())
        return select(encoded, ~leaked)


def _as_json(counts: Counts) -> dict[str, Any]:
    return {**asdict(counts), "rows": _text_keys(dict(sorted(counts.rows.items())))}


def _text_keys(value: dict[int, Any]) -> dict[str, Any]:
    return {str(key): item for key, item in value.items()}
