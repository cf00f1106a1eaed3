"""A training's arrays whole, where each of several ranks holds a part: gathered one by one, as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mindport.config import ModelConfig, schema
from mindport.training.checkpoint import Snapshot
from mindport.training.checkpoint.shares import weight_of
from mindport.training.collective import gather

if TYPE_CHECKING:
    from mindport.model import GPT


class Arrays(Mapping[str, np.ndarray]):
    """Parameters as arrays, each fetched from the device when it is asked for."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters

    def __getitem__(self, name: str) -> np.ndarray:
        return self._parameters[name].asnumpy()

    def __contains__(self, name: object) -> bool:
        return name in self._parameters  # Mapping's own would fetch the array, and wait for other ranks

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)


class WholeArrays(Arrays):
    """The same, whole. All ranks that share the weights ask for the same names, in the same order.

    Args:
        parameters: this rank's, of the model or of its optimizer.
        model: says which of them are parts.
    """

    def __init__(self, parameters: Mapping[str, Any], model: GPT) -> None:
        super().__init__(parameters)
        self._model = model

    def __getitem__(self, name: str) -> np.ndarray:
        array, axis = super().__getitem__(name), self._model.split.get(weight_of(name))
        return array if axis is None else np.concatenate(gather(self._model.ranks, array, "tp"), axis)


def give(snapshot: Snapshot, model: ModelConfig) -> None:
    """Take part where the first rank copies such a snapshot, in the order in which it does, and keep nothing."""
    for name in schema.shapes(model):
        snapshot.weights[name]
    for name in snapshot.state:
        snapshot.state[name]
