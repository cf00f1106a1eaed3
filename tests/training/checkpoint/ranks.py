"""Several processes of a training, played by threads of one: NumPy only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mindport.config import ModelConfig
from mindport.errors import MindPortError
from mindport.training.checkpoint import Checkpoints, Share, Snapshot
from mindport.training.checkpoint.shares import cut

JOB = "job"


def shares(dp: int, tp: int, **options: Any) -> list[Share]:
    return [Share(dp, tp, rank, **{"job": JOB, "patience": 20.0, **options}) for rank in range(dp * tp)]


def share_of(whole: Snapshot, model: ModelConfig, share: Share) -> Snapshot:
    """What one process has of a training."""

    def cut_all(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: x[cut(name, model, share) or ()] for name, x in arrays.items()}

    return dataclasses.replace(whole, weights=cut_all(whole.weights), state=cut_all(whole.state))


@contextmanager
def ranks(root: Path, source: Path, told: list[Share], **options: Any) -> Iterator[list[Checkpoints]]:
    """The checkpoints of each process."""
    with ExitStack() as stack:
        yield [stack.enter_context(Checkpoints(root, source, share=share, **options)) for share in told]


def save(every: list[Checkpoints], told: list[Share], whole: Snapshot, loss: float | None = None) -> Path:
    """A checkpoint of all, on the disk when this returns."""
    for checkpoints, share in zip(every, told, strict=True):
        path = checkpoints.save(share_of(whole, checkpoints.origin.model, share), loss).path
    for checkpoints in every:
        checkpoints.wait()
    return path


def errors(every: list[Checkpoints]) -> list[MindPortError | None]:
    """What each says of its last save."""
    found: list[MindPortError | None] = []
    for checkpoints in every:
        try:
            checkpoints.wait()
            found.append(None)
        except MindPortError as error:
            found.append(error)
    return found
