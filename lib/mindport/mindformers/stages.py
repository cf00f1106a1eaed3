"""Which layers each stage of a pipeline has."""

from __future__ import annotations

import numpy as np


def layers_of(layers: int, pp: np.ndarray, stage: np.ndarray) -> np.ndarray:
    """Layers of a stage: evenly, and what is left over to the middle first.

    The first stage holds the most micro-batches, the last one has the head: they are the last to take one more.
    """
    order = np.where(stage == pp - 1, pp - 1, np.where(stage == 0, pp - 2, stage - 1))
    return layers // pp + (np.maximum(order, 0) < layers % pp)


def split(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage of a pipeline."""
    return tuple(int(n) for n in layers_of(layers, np.full(stages, stages), np.arange(stages)))


def stage_of(layers: int, stages: int) -> list[int]:
    """The stage of each layer."""
    return [stage for stage, count in enumerate(split(layers, stages)) for _ in range(count)]
