"""MindSpore's own .ckpt files: the one place of this room that imports mindspore.

`save_checkpoint` wants all tensors at once, so a .ckpt needs memory for the whole model; safetensors does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mindport.errors import BackendError, FileError, first_line
from mindport.weights.dtypes import NUMPY

NAME = "model.ckpt"


class CheckpointFile:
    """Collects the tensors and saves them when closed."""

    def __init__(self, path: Path) -> None:
        self.path, self.ms = path, _mindspore(path)
        self.tensors: list[dict[str, Any]] = []

    def write(self, name: str, x: np.ndarray) -> None:
        self.tensors.append({"name": name, "data": self.ms.Tensor(x)})

    def close(self, *, complete: bool = True) -> None:
        if complete:
            self.ms.save_checkpoint(self.tensors, str(self.path))


def read_checkpoint(path: Path) -> dict[str, np.ndarray]:
    """All tensors of a .ckpt.

    Raises:
        FileError: it is damaged.
        BackendError: mindspore is missing.
    """
    ms = _mindspore(path)
    try:
        return {name: _own_bfloat16(x.asnumpy()) for name, x in ms.load_checkpoint(str(path)).items()}
    except (ValueError, RuntimeError, OSError) as error:
        raise FileError("the checkpoint is damaged", where=path, got=first_line(error) or repr(error)) from None


def _own_bfloat16(x: np.ndarray) -> np.ndarray:
    """MindSpore brings a bfloat16 type of its own, which equals nobody else's: the same bits as ours."""
    return x.view(NUMPY["BF16"]) if x.dtype.name == "bfloat16" else x


def _mindspore(path: Path) -> Any:
    try:
        import mindspore
    except ImportError as error:
        raise BackendError("a .ckpt needs mindspore", where=path, got=error,
                           do="install mindspore, or take safetensors, which needs no framework") from None  # fmt: skip
    return mindspore
