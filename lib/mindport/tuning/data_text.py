"""The text of the data benchmark, and what of the tokens is compared: needs no framework."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import xxhash

from mindport import sources

COLUMN, SEED = "text", 20251
CHARACTERS = (200, 3800)  # of a document


def write_documents(path: Path, documents: int, seed: int = SEED) -> Path:
    """A .jsonl of pieces of the bundled text, from places that the seed decides."""
    text, draw = sources.corpus().read_text(encoding="utf-8"), np.random.default_rng(seed)
    sizes = draw.integers(*CHARACTERS, documents)
    starts = draw.integers(0, len(text) - CHARACTERS[1], documents)
    with path.open("w", encoding="utf-8") as file:
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            file.write(json.dumps({COLUMN: text[start : start + size]}) + "\n")
    return path


def census(batches: Iterable[np.ndarray]) -> dict[str, np.ndarray]:
    """How often each id is there, and the digests of rows, sorted: equal for equal rows in whatever order.

    Args:
        batches: int (B, T) each.
    """
    rows = np.concatenate([np.asarray(batch, np.int32) for batch in batches])
    digests = np.sort([xxhash.xxh32_intdigest(row.tobytes()) for row in rows])
    return {"ids": np.bincount(rows.ravel()).astype(np.float64), "rows": digests.astype(np.float64)}
