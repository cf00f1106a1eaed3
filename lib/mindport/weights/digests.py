"""A digest for every parameter, of a converted directory or of the one that it should come from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mindport.config import read_config
from mindport.weights.dtypes import CODES, cast, digest
from mindport.weights.jobs import import_job
from mindport.weights.readers import open_hf
from mindport.weights.store import load


def expected_digests(
    src: Path | str, dtype: str = "keep", allow: Sequence[str] = (), padded_vocab: int | None = None
) -> dict[str, str]:
    """Hub name → digest of what a Hugging Face directory makes of it, by the family's table.

    Args:
        src: the directory.
        dtype: the precision of the conversion.
        allow: unknown keys of config.json to let pass.
        padded_vocab: rows of the embedding, where it is padded.
    """
    job = import_job(open_hf(src), read_config(src, allow, padded_vocab), dtype)
    found = {}
    for move in job.moves:
        for name, x in zip(move.targets, move.turn([job.read(source) for source in move.sources]), strict=True):
            found[name] = digest(cast(name, x, CODES[dtype])[0] if dtype in CODES else x)
    return found


def found_digests(directory: Path | str) -> dict[str, str]:
    """Hub name → digest of what a MindPort directory holds."""
    return {name: digest(x) for name, x in load(directory, check=False).items()}
