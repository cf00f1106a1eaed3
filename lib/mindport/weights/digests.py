"""What every parameter should be, by the source's own files; and a digest for each, and for what it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from mindport.config import read_config
from mindport.weights.dtypes import CODES, cast, digest
from mindport.weights.jobs import Job, import_job
from mindport.weights.readers import open_hf
from mindport.weights.store import load


class Expected(Mapping[str, np.ndarray]):
    """Hub name → what a source makes of it; each look-up reads from the disk, so keep what you need again."""

    def __init__(self, job: Job) -> None:
        self._read = job.read
        self._moves = {name: move for move in job.moves for name in move.targets}

    def __getitem__(self, name: str) -> np.ndarray:
        move = self._moves[name]
        arrays = move.turn([self._read(source) for source in move.sources])
        return arrays[move.targets.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._moves)

    def __contains__(self, name: object) -> bool:
        return name in self._moves  # Mapping's own would read the tensor

    def __len__(self) -> int:
        return len(self._moves)


def expected(
    src: Path | str, dtype: str = "keep", allow: Sequence[str] = (), padded_vocab: int | None = None
) -> Expected:
    """What a Hugging Face directory makes of every parameter, by the family's table.

    Args:
        src: the directory.
        dtype: the precision of the conversion; values are in the source's own.
        allow: unknown keys of config.json to let pass.
        padded_vocab: rows of the embedding, where it is padded.
    """
    return Expected(import_job(open_hf(src), read_config(src, allow, padded_vocab), dtype))


def expected_digests(
    src: Path | str, dtype: str = "keep", allow: Sequence[str] = (), padded_vocab: int | None = None
) -> dict[str, str]:
    """Hub name → digest of what `expected` says, in the precision of the conversion."""
    return {
        name: digest(cast(name, x, CODES[dtype])[0] if dtype in CODES else x)
        for name, x in expected(src, dtype, allow, padded_vocab).items()
    }


def found_digests(directory: Path | str) -> dict[str, str]:
    """Hub name → digest of what a MindPort directory holds."""
    return {name: digest(x) for name, x in load(directory, check=False).items()}
