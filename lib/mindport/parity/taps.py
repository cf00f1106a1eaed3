"""Where both models are looked at: one tap for each value that both sides make.

Tap("blocks.1.attn.k")        the output of our cell blocks.1.attn.k ↔ of model.layers.1.self_attn.k_proj
Tap("blocks.1.attn.context")  what attention made of q, k and v: the *input* of the output projection
Tap("blocks.1.mlp.hidden")    what the activation made: the *input* of the down projection
"""

from __future__ import annotations

from dataclasses import dataclass

from mindport.config.dialect import Dialect
from mindport.config.model_config import ModelConfig
from mindport.config.schema import LAYER, expand, shapes

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
        columns: the part of the reference's last axis, when one module makes the values of several cells.
    """

    path: str
    cell: str
    module: str
    seen_at: tuple[str, str] | None = None
    columns: tuple[int, int] | None = None

    @property
    def foreign(self) -> str:
        """The reference's name of the value."""
        if self.seen_at:
            return f"input of {self.seen_at[1]}"
        return self.module + (f" [{self.columns[0]}:{self.columns[1]}]" if self.columns else "")


def taps(config: ModelConfig, dialect: Dialect) -> dict[str, Tap]:
    """Every tap by path; the order of execution comes from a run, not from here."""
    sizes = {name.rpartition(".")[0]: shape[0] for name, shape in shapes(config).items()}
    found = [tap for cells, module in _modules(config, dialect) for tap in _outputs(cells, module, sizes)]
    modules = {tap.cell: tap.module for tap in found}
    found += [_inner(layer, name, modules) for layer in range(config.num_hidden_layers) for name in INNER]
    return {tap.path: tap for tap in found}


def is_residual(path: str) -> bool:
    """Whether the value is the residual stream after a layer, or what the model makes of it at the end."""
    return path in ("norm", LOGITS) or path.rpartition(".")[0] == "blocks"


def _modules(config: ModelConfig, dialect: Dialect) -> list[tuple[tuple[str, ...], str]]:
    """(cells, module) with the layers counted out and the family's prefix; only what this configuration has."""
    pairs = []
    for cells, module in dialect.module_pairs():
        if cells == ("position",) and config.position != "learned":
            continue
        if cells == ("head",):  # the family's prefix does not stand before the head
            pairs.append((cells, module))
            continue
        columns = zip(*(expand(cell, config) for cell in cells), strict=True)
        names = [module.format(i) for i in range(config.num_hidden_layers)] if LAYER in module else [module]
        pairs += [(group, dialect.prefix + name) for group, name in zip(columns, names, strict=True)]
    return pairs


def _outputs(cells: tuple[str, ...], module: str, sizes: dict[str, int]) -> list[Tap]:
    if len(cells) == 1:
        return [Tap(LOGITS if cells == ("head",) else cells[0], cells[0], module)]
    found, start = [], 0
    for cell in cells:
        stop = start + sizes[cell]
        found.append(Tap(cell, cell, module, columns=(start, stop)))
        start = stop
    return found


def _inner(layer: int, name: str, modules: dict[str, str]) -> Tap:
    maker, at = (f"blocks.{layer}.{cell}" for cell in INNER[name])
    return Tap(f"blocks.{layer}.{name}", maker, modules[maker], seen_at=(at, modules[at]))
