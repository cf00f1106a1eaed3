"""A part's tokens on the disk, until the rows are written: what is finished stays when the process is killed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from mindport.files import atomic_file
from mindport.training.data.encoder import Encoded

ARRAYS = ("tokens", "lengths", "keys", "starts")


def key_of(job: dict[str, Any]) -> str:
    """What the tokens depend on: the part of the file, the tokenizer, the column."""
    return hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()


def write_shard(path: Path, key: str, encoded: Encoded) -> None:
    """Write one, whole or not at all."""
    with atomic_file(path) as aside, aside.open("wb") as file:
        arrays = {name: getattr(encoded, name) for name in ARRAYS}
        np.savez(file, key=np.array(key), empty=np.array(encoded.empty), **arrays)


def is_whole(path: Path, key: str) -> bool:
    """Whether it is there, undamaged (each array has a CRC), and of this text."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return str(file["key"]) == key and all(len(file[name]) >= 0 for name in ARRAYS)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return False


def read_shard(path: Path) -> Encoded:
    """Read one that is whole."""
    with np.load(path, allow_pickle=False) as file:
        return Encoded(*(file[name] for name in ARRAYS), int(file["empty"]))


def read_keys(path: Path) -> np.ndarray:
    """The keys of its documents; its tokens stay on the disk."""
    with np.load(path, allow_pickle=False) as file:
        return file["keys"]
