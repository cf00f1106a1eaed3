"""Ours, as contestants of the data benchmark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import mindspore.mindrecord  # noqa: F401  (memory counts from after the framework's import, as the peer's does)
import numpy as np

from mindport.files import read_json
from mindport.training.config import DataConfig
from mindport.training.data import Position, Prepared, open_data, prepare
from mindport.tuning.contestant import Built
from mindport.tuning.data_text import COLUMN, SEED, census, write_documents

OUT = Path("rows")


def prepare_rows(*, documents: int, tokens: int, rows: int, model: str) -> Built:
    """Text to rows on the disk: tokenised, packed, written."""
    text = write_documents(Path("text.jsonl"), documents)
    held_out = write_documents(Path("held_out.jsonl"), 1, SEED + 1)
    config = DataConfig(train=(str(text),), held_out=(str(held_out),), column=COLUMN, tokens=tokens)
    vocab_size = read_json(Path(model) / "config.json")["vocab_size"]

    def run() -> None:
        shutil.rmtree(OUT, ignore_errors=True)
        prepare(config, model, OUT, vocab_size=vocab_size, seed=SEED, progress=False)

    run()
    prepared = open_data(OUT, tokenizer=Path(model) / "tokenizer.json", vocab_size=vocab_size)
    return Built(run, lambda: census(batch.ids for batch in prepared.rows("train", 1)), _about(prepared))


def read_batches(*, documents: int, tokens: int, rows: int, model: str) -> Built:
    """Rows to shuffled batches, as the trainer takes them."""
    prepared = _prepared(documents, tokens, rows, model)

    def batches() -> Iterator[np.ndarray]:
        """An epoch; the rows that the last batch takes of the next one are not in it."""
        ahead = prepared.batches("train", rows, seed=SEED)
        for left in range(prepared.size("train"), 0, -rows):
            yield next(ahead).ids[:left]

    return Built(lambda: _use(batches()), lambda: census(batches()), _about(prepared))


def read_mind_dataset(*, documents: int, tokens: int, rows: int, model: str) -> Built:
    """The same rows through MindSpore's own pipeline."""
    prepared = _prepared(documents, tokens, rows, model)
    size = prepared.size("train")
    whole = size // rows * rows

    def batches() -> Iterator[np.ndarray]:
        data = prepared.dataset("train", rows, seed=SEED)
        for ids, _ in data.create_tuple_iterator(num_epochs=1, output_numpy=True):
            yield ids

    def values() -> dict[str, np.ndarray]:
        rest = (
            next(prepared.batches("train", rows, seed=SEED, position=Position(0, whole))).ids if whole < size else None
        )
        return census([*batches(), *([] if rest is None else [rest[: size - whole]])])

    return Built(lambda: _use(batches()), values, _about(prepared))


def _use(batches: Iterator[np.ndarray]) -> None:
    for ids in batches:
        ids[-1, -1]


def _prepared(documents: int, tokens: int, rows: int, model: str) -> Prepared:
    prepare_rows(documents=documents, tokens=tokens, rows=rows, model=model)
    vocab_size = read_json(Path(model) / "config.json")["vocab_size"]
    return open_data(OUT, tokenizer=Path(model) / "tokenizer.json", vocab_size=vocab_size)


def _about(prepared: Prepared) -> dict[str, int]:
    return {"tokens": prepared.counts("train")["tokens"], "rows": prepared.size("train")}
