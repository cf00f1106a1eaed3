"""Where both models are looked at: one tap for each value that both sides make.

Tap("blocks.1.attn.k")        the output of our cell blocks.1.attn.k ↔ of model.layers.1.self_attn.k_proj
Tap("blocks.1.attn.context")  what attention made of q, k and v: the *input* of the output projection
Tap("blocks.1.mlp.hidden")    what the activation made: the *input* of the down projection
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mindport.config.dialect import Dialect, ModulePair
from mindport.config.model_config import ModelConfig
from mindport.config.schema import LAYER, expand, shapes
from mindport.weights.layouts import layout

INNER = {"attn.context": ("attn", "attn.o"), "mlp.hidden": ("mlp", "mlp.down")}  # tap: made by, seen as the input of
LOGITS = "logits"


@dataclass(frozen=True, slots=True)
class Tap:
    """One value of the forward pass, under both names.

    Attributes:
        path: our name of the value.
        cell: our cell that makes it.
        module: the reference's module that makes it.
        seen_at: (cell, module) whose input the value is; None when it is the maker's own output.
        columns: places on the reference's last axis, when one module makes the values of several cells.
    """

    path: str
    cell: str
    module: str
    seen_at: tuple[str, str] | None = None
    columns: tuple[int, ...] | None = None

    @property
    def foreign(self) -> str:
        """The reference's name of the value."""
        if self.seen_at:
            return f"input of {self.seen_at[1]}"
        return self.module + (f" [{_runs(self.columns)}]" if self.columns else "")


def taps(config: ModelConfig, dialect: Dialect) -> dict[str, Tap]:
    """Every tap by path; the order of execution comes from a run, not from here."""
    found = [tap for pair in _modules(config, dialect) for tap in _outputs(pair, config)]
    modules = {tap.cell: tap.module for tap in found}
    found += [_inner(layer, name, modules) for layer in range(config.num_hidden_layers) for name in INNER]
    return {tap.path: tap for tap in found}


def is_residual(path: str) -> bool:
    """Whether the value is the residual stream after a layer, or what the model makes of it at the end."""
    return path in ("norm", LOGITS) or path.rpartition(".")[0] == "blocks"


def _modules(config: ModelConfig, dialect: Dialect) -> list[ModulePair]:
    """The family's pairs with the layers counted out and its prefix; only what this configuration has."""
    found = []
    for pair in dialect.module_pairs():
        if pair.cells == ("position",) and config.position != "learned":
            continue
        if pair.cells == ("head",):  # the family's prefix does not stand before the head
            found.append(pair)
            continue
        columns = zip(*(expand(cell, config) for cell in pair.cells), strict=True)
        counted = range(config.num_hidden_layers) if LAYER in pair.foreign else range(1)
        names = [dialect.prefix + pair.foreign.format(i) for i in counted]
        found += [ModulePair(cells, name, pair.layout) for cells, name in zip(columns, names, strict=True)]
    return found


def _outputs(pair: ModulePair, config: ModelConfig) -> list[Tap]:
    if len(pair.cells) == 1:
        return [Tap(LOGITS if pair.cells == ("head",) else pair.cells[0], pair.cells[0], pair.foreign)]
    sizes = shapes(config)
    widths = [sizes[f"{cell}.weight"][:1] for cell in pair.cells]
    places = np.arange(sum(width for (width,) in widths))
    parts = layout(pair.layout, config).to_hub(places, widths)  # outputs lie as a bias does
    return [
        Tap(cell, cell, pair.foreign, columns=tuple(part.tolist()))
        for cell, part in zip(pair.cells, parts, strict=True)
    ]


def _runs(columns: tuple[int, ...]) -> str:
    """Places as slices, at most three: 0:8, 24:32, …"""
    ends = [i + 1 for i, (one, other) in enumerate(pairwise(columns)) if other != one + 1]
    runs = [f"{columns[i]}:{columns[j - 1] + 1}" for i, j in zip([0, *ends], [*ends, len(columns)], strict=True)]
    return ", ".join(runs[:3]) + ", …" * (len(runs) > 3)


def _inner(layer: int, name: str, modules: dict[str, str]) -> Tap:
    maker, at = (f"blocks.{layer}.{cell}" for cell in INNER[name])
    return Tap(f"blocks.{layer}.{name}", maker, modules[maker], seen_at=(at, modules[at]))
