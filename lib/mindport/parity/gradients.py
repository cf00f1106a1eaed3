"""Gradients under our names: the tables that map the weights map their gradients too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mindport.config.dialect import Dialect
from mindport.config.model_config import ModelConfig
from mindport.config.schema import shapes
from mindport.errors import MappingError, some
from mindport.weights.layouts import layout
from mindport.weights.plan import table

BLOCK = "blocks.{}"


def to_hub(
    gradients: Mapping[str, np.ndarray], config: ModelConfig, dialect: Dialect, index: int
) -> dict[str, np.ndarray]:
    """Gradients by the reference's names within a layer → by ours in the whole model.

    Args:
        gradients: "input" and every parameter of the layer, as the reference calls them within the layer.
        config: for the shapes.
        dialect: the family's table.
        index: the layer's.

    Raises:
        MappingError: the layer has parameters that the table does not know.
    """
    start, sizes = dict(dialect.modules)[BLOCK] + ".", shapes(config)
    found = {"input": gradients["input"]}
    left = set(gradients) - {"input"}
    for row in dialect.rows:
        name = row.foreign.removeprefix(start)
        if row.foreign.startswith(start) and name in gradients:
            names = [hub.format(index) for hub in row.hub.split()]
            parts = layout(row.layout, config).to_hub(gradients[name], [sizes[hub] for hub in names])
            found |= dict(zip(names, parts, strict=True))
            left.remove(name)
    if left:
        raise MappingError(
            "the layer has parameters without a row in the table", where=dialect.model_type, got=sorted(left)
        )
    return found


def all_to_hub(
    values: Mapping[str, np.ndarray], config: ModelConfig, dialect: Dialect
) -> Iterator[tuple[str, np.ndarray]]:
    """Whatever belongs to the parameters of a whole model (gradients, moments) → (our name, the same in our layout).

    Args:
        values: by the name that the reference's class gives the parameter.
        config: for the shapes.
        dialect: the family's table.

    Raises:
        MappingError: a parameter has no value, or a value no parameter.
    """
    steps = table(dialect, config).steps
    if odd := sorted(values.keys() ^ {step.foreign for step in steps}):
        raise MappingError("the model and the table differ", where=dialect.model_type, got=some(odd))
    for step in steps:
        yield from step.parts(values[step.foreign]).items()
