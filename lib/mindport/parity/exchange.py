"""What the process of the reference is given of a training of ours, and what it answers: files, NumPy only."""

from __future__ import annotations

import dataclasses
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindport.errors import FileError
from mindport.files import atomic_file, read_json, write_json
from mindport.machine import cores
from mindport.parity.curves import Ran
from mindport.results import plain

Rows = tuple[np.ndarray, np.ndarray]  # ids and labels, int32 (B, T); a label stands at the token that it is
IGNORED = -100


@dataclass(frozen=True)
class RunRecipe:
    """Optimizer and schedule of a training: `TrainConfig`'s fields, for a process that has no MindSpore.

    Attributes:
        steps: of the whole schedule.
        lr, betas, eps, weight_decay: of AdamW; norms and biases do not decay.
        max_norm: gradients are clipped to it; None leaves them.
        shape: of the schedule after the warm-up: constant, linear or cosine.
        warmup: steps of it.
        no_decay: patterns of our names whose weights do not decay either.
    """

    steps: int
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    max_norm: float | None
    shape: str
    warmup: int
    no_decay: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For a file or a report."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Fed:
    """All that a training was fed.

    Attributes:
        steps: the parts of each step.
        held_out: what was measured before and after.
    """

    steps: Sequence[Sequence[Rows]]
    held_out: Sequence[Rows] = ()


def counted(labels: np.ndarray) -> int:
    """Tokens that a loss is the mean of: the first of a row has none before it to be predicted from."""
    return int((labels[:, 1:] != IGNORED).sum())


def write_fed(path: Path, fed: Fed) -> Path:
    """Write everything to one .npz; rows of different lengths are no trouble."""
    arrays = {
        f"{step}/{part}/{name}": array
        for step, parts in enumerate(fed.steps)
        for part, rows in enumerate(parts)
        for name, array in zip(("ids", "labels"), rows, strict=True)
    }
    arrays |= {f"held_out/{part}/{name}": array for part, rows in enumerate(fed.held_out)
               for name, array in zip(("ids", "labels"), rows, strict=True)}  # fmt: skip
    with atomic_file(path) as aside, aside.open("wb") as file:
        np.savez(file, **arrays)
    return path


def read_fed(path: Path) -> Fed:
    """What `write_fed` wrote.

    Raises:
        FileError: it is missing, or not such a file.
    """
    found: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    try:
        with np.load(path) as arrays:
            for key in arrays.files:
                group, part, name = key.split("/")
                found.setdefault(group, {}).setdefault(int(part), {})[name] = arrays[key]
        held_out = found.pop("held_out", {})
        steps = [_parts(found[step]) for step in sorted(found, key=int)]
        return Fed(steps, _parts(held_out))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise FileError("these are no batches of a training", where=path, got=error) from None


def write_recipe(path: Path, recipe: RunRecipe) -> Path:
    """As JSON."""
    return write_json(path, recipe.as_dict())


def read_recipe(path: Path) -> RunRecipe:
    """What `write_recipe` wrote.

    Raises:
        FileError: it is missing, or lacks something.
    """
    told = read_json(path)
    try:
        return RunRecipe(**{**told, "betas": tuple(told["betas"]), "no_decay": tuple(told["no_decay"])})
    except (TypeError, KeyError) as error:
        raise FileError("this is no recipe of a training", where=path, got=error) from None


def write_answer(path: Path, reference: Ran, exact: Ran | None, notes: Sequence[str]) -> Path:
    """What the reference did; a loss that is not finite is text there."""
    return write_json(path, plain({"reference": reference, "exact": exact, "notes": notes}))


def read_answer(path: Path) -> tuple[Ran, Ran | None, tuple[str, ...]]:
    """(in float32, in float64 or None, what is to be known of it).

    Raises:
        FileError: it is missing.
    """
    told = read_json(path)
    exact = told["exact"]
    return _ran(told["reference"]), None if exact is None else _ran(exact), tuple(told["notes"])


def threads() -> int:
    """How many both sides compute with: OMP_NUM_THREADS, or as many as there are cores for this process."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) else cores()


def _parts(found: Mapping[int, Mapping[str, np.ndarray]]) -> list[Rows]:
    return [(found[part]["ids"], found[part]["labels"]) for part in sorted(found)]


def _ran(told: Mapping[str, Any]) -> Ran:
    lists = {name: tuple(map(float, value)) for name, value in told.items() if isinstance(value, list)}
    return Ran(**{**told, **lists})
