"""Rows of tokens that `prepare` left, as batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from mindport.errors import FileError, UsageError
from mindport.files import sha256
from mindport.training.data.batch import Batch
from mindport.training.data.batches import Batches, gather
from mindport.training.data.files import SPLITS
from mindport.training.data.manifest import NAME, Manifest, check_files, read_manifest
from mindport.training.data.order import Order, Position, position_of
from mindport.training.data.record_reader import RecordReader

START = Position()


class Prepared:
    """Text as rows of tokens, ready to be read. No framework is needed: PyTorch can take the same batches.

    Args:
        directory: that `prepare` wrote.
        manifest: what is there.
    """

    def __init__(self, directory: Path, manifest: Manifest) -> None:
        self.directory, self.manifest = directory, manifest
        self._readers: dict[str, dict[int, RecordReader]] = {}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the manifest, which has the digest of every file: what a checkpoint was trained on."""
        return sha256(self.directory / NAME)

    @property
    def pad(self) -> int:
        """The id in padding."""
        return self.manifest.request["special"]["pad"]

    def size(self, split: str) -> int:
        """Rows of a split."""
        return sum(len(reader) for reader in self.readers(split).values())

    def lengths(self, split: str) -> tuple[int, ...]:
        """Lengths of rows that a split has: as many graphs to compile."""
        return tuple(self.readers(split))

    def counts(self, split: str) -> dict[str, Any]:
        """What became of the split's text: documents, tokens, counted, …"""
        return self.manifest.splits[_known(split)]["counts"]

    def batches(
        self, split: str, rows: int, *, seed: int, shuffle: bool = True, rank: int = 0, ranks: int = 1,
        position: Position | Mapping[str, Any] = START,
    ) -> Batches:  # fmt: skip
        """An endless iterator of batches, from a position on.

        Args:
            split: "train" or "held_out".
            rows: of a batch, over all ranks; each rank takes `rows / ranks` of it.
            seed: of the order; the same in every process.
            shuffle: False: as the text has them.
            rank: of this process.
            ranks: of all.
            position: where an earlier iterator ended: its `position`, or that as a dict.

        Raises:
            UsageError: the rows cannot be divided among the ranks, or there is no such position or split.
        """
        if rows < 1 or ranks < 1 or rows % ranks or not 0 <= rank < ranks:
            raise UsageError("the rows of a batch cannot be divided among the ranks",
                             got=f"{rows} rows, rank {rank} of {ranks}")  # fmt: skip
        readers = self.readers(split)
        order = Order({length: len(reader) for length, reader in readers.items()}, rows, seed, shuffle)
        return Batches(readers, order, rank, ranks, self.pad, position_of(position))

    def rows(self, split: str, rows: int, limit: int | None = None) -> Iterator[Batch]:
        """Every row of a split once, as the text has them, to measure on; the last batch of a length is filled up.

        Args:
            split: "train" or "held_out".
            rows: of a batch.
            limit: rows that are enough: of each length its share.
        """
        size, before = self.size(split), 0
        wanted = size if limit is None else min(limit, size)
        for length, reader in self.readers(split).items():
            share = (before + len(reader)) * wanted // size - before * wanted // size
            before += len(reader)
            for chosen in Order({length: share}, rows, 0, shuffle=False).once():
                yield gather(reader, chosen, self.pad)

    def dataset(
        self, split: str, rows: int, *, seed: int, epoch: int = 0, rank: int = 0, ranks: int = 1, shuffle: bool = True
    ) -> Any:
        """One epoch as a `mindspore.dataset.MindDataset` with columns `ids` and `labels`, int32 (rows / ranks, T).

        In the order of `batches`. The incomplete last batch, which `batches` fills from the next epoch, is left out.

        Args:
            split: "train" or "held_out".
            rows: of a batch, over all ranks.
            seed: of the order.
            epoch: which one.
            rank: of this process.
            ranks: of all.
            shuffle: False: as the text has them.

        Raises:
            UsageError: the rows have several lengths, or there are fewer than a batch takes.
        """
        from mindport.training.data.mind_dataset import mind_dataset

        return mind_dataset(self, split, rows, seed=seed, epoch=epoch, rank=rank, ranks=ranks, shuffle=shuffle)

    def readers(self, split: str) -> dict[int, RecordReader]:
        """The split's files by the length of their rows, opened once."""
        if _known(split) not in self._readers:
            files = self.manifest.lengths(split)
            self._readers[split] = {
                length: RecordReader(self.directory, names, length) for length, names in files.items()
            }
        return self._readers[split]


def open_data(directory: Path | str, *, tokenizer: Path | str, vocab_size: int, check: bool = True) -> Prepared:
    """Open what `prepare` wrote.

    Args:
        directory: of the rows.
        tokenizer: the model's tokenizer.json.
        vocab_size: of the model.
        check: False: sizes of files are held to the manifest, their digests not.

    Raises:
        FileError: nothing is there, a file is torn or edited, or the rows belong to another tokenizer or model.
    """
    directory = Path(directory)
    manifest = read_manifest(directory)
    request = manifest.request
    if (found := sha256(Path(tokenizer))) != request["tokenizer"]:
        raise FileError("the text was prepared with another tokenizer", where=directory / NAME,
                        got=f"SHA-256 {request['tokenizer'][:12]}…", expected=f"{found[:12]}… of {tokenizer}",
                        do="prepare the text again, into another directory")  # fmt: skip
    if request["vocab_size"] != vocab_size:
        raise FileError("the text was prepared for another vocabulary", where=directory / NAME,
                        got=request["vocab_size"], expected=f"{vocab_size}, the model's vocab_size",
                        do="prepare the text again, into another directory")  # fmt: skip
    check_files(directory, manifest, check)
    return Prepared(directory, manifest)


def _known(split: str) -> str:
    if split not in SPLITS:
        raise UsageError("there is no such split", got=split, expected=" or ".join(SPLITS))
    return split
