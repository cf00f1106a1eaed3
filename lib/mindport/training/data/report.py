"""What `prepare` answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.training.data.files import HELD_OUT, TRAIN
from mindport.training.data.manifest import Manifest

_NAMES = {
    "documents": "documents that begin there", "empty": "documents with nothing to learn, left out",
    "duplicates": "documents that were there already, left out", "tokens": "tokens in rows",
    "counted": "tokens that count", "padding": "padding", "truncated": "documents longer than a row, cut",
    "cut": "tokens cut off", "idle": "rows in which nothing counts",
    "idle_tokens": "tokens of such rows, left out",
}  # fmt: skip


@dataclass(frozen=True)
class DataReport(Result):
    """Text as rows of tokens.

    Attributes:
        directory: where they are.
        manifest: what is there.
        fresh: False: an earlier call had made all of it.
        kept: parts of the text that an interrupted call had tokenised.
        parts: all of them.
        seconds: that this call took.
    """

    directory: Path
    manifest: Manifest
    fresh: bool
    kept: int = 0
    parts: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there are tokens to learn from and to measure on that count, and no text is on both sides."""
        return self.manifest.shared == 0 and all(self.counts(split)["counted"] > 0 for split in (TRAIN, HELD_OUT))

    def counts(self, split: str) -> dict[str, Any]:
        """What became of the text of a split."""
        return self.manifest.splits[split]["counts"]

    def headline(self) -> str:
        train, held_out = self.counts(TRAIN), self.counts(HELD_OUT)
        said = "" if self.fresh else " (there already)"
        rows = sum(train["rows"].values())
        text = (f"{train['tokens']:,} tokens to learn from in {rows:,} rows, {train['counted']:,} of them count; "
                f"{held_out['tokens']:,} held out{said}")  # fmt: skip
        return "; ".join([text, *self.remarks()])

    def held_share(self) -> float:
        """Of all tokens."""
        held = self.counts(HELD_OUT)["tokens"]
        return held / (held + self.counts(TRAIN)["tokens"])

    def remarks(self) -> Iterator[str]:
        """What is to be noticed: cut documents, idle rows, text on both sides."""
        train = self.counts(TRAIN)
        if train["truncated"]:
            yield f"{train['truncated']:,} documents are longer than a row: {train['cut']:,} tokens were cut off"
        if train["idle"]:
            yield f"nothing counts in {train['idle']:,} rows"
        held, share = self.held_share(), self.manifest.request["config"]["held_out_share"]
        if not self.manifest.request["config"]["held_out"] and held > 2 * share:
            yield (f"{held:.0%} of the tokens are held out, by {share:.0%} of the documents: they are few, or of "
                   "different lengths")  # fmt: skip
        if self.manifest.leaked:
            yield f"{self.manifest.leaked:,} held-out documents are in the training text, and were left out"

    def tables(self) -> tuple[Table, ...]:
        splits = (TRAIN, HELD_OUT)
        rows: list[tuple[object, ...]] = [
            (name, *(self.counts(s)[key] for s in splits)) for key, name in _NAMES.items()
        ]
        lengths = dict.fromkeys(length for split in splits for length in self.counts(split)["rows"])
        rows += [(f"rows of {length} tokens", *(self.counts(s)["rows"].get(length, 0) for s in splits))
                 for length in lengths]  # fmt: skip
        files = [(s["split"], s["path"], s["bytes"], s["sha256"][:12]) for s in self.manifest.sources]
        return (Table("what became of the text", ("what", "to learn from", "held out"), rows),
                Table("the text", ("split", "file", "bytes", "SHA-256"), files))  # fmt: skip

    def properties(self) -> tuple[Property, ...]:
        tokens = sum(self.counts(split)["tokens"] for split in (TRAIN, HELD_OUT))
        return (
            verdict("text is tokenised with the model's own tokenizer", self.ok, "its SHA-256 is in the manifest",
                    f"{tokens:,} tokens"),
            verdict("no text is both learned from and held out", self.manifest.shared == 0,
                    "hashes of all documents; one that is long is divided, and each piece is a text of its own",
                    f"{self.manifest.shared} on both sides, {self.manifest.leaked} left out"),
        )  # fmt: skip
