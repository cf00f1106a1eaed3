"""How operators split their inputs, from the schema: the axis of a weight that tensor parallelism splits says it.

    a table (v, d)            Gather(table, ids (B, T))       ((tp, 1), (dp, 1))
    weights (out, in), 0      MatMul(x (rows, in), weights)   ((dp, 1), (tp, 1))       columns: no traffic
    weights (out, in), 1      MatMul(x (rows, in), weights)   ((dp, tp), (1, tp))      rows: sums of ranks

With sequence parallelism what a sum of ranks leaves is split along the rows too: a reduce-scatter, no all-reduce.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindport.config import ModelConfig
from mindport.config.schema import PARAMS, Param
from mindport.mindformers.layout import Layout
from mindport.tables import Table

TABLES = ("embed", "position")
Split = tuple[int, ...]


@dataclass(frozen=True)
class Strategy:
    """How one operator of a cell splits what it reads.

    Attributes:
        cell: its name in the model, `{}` for the layer's index.
        operator: Gather, MatMul or BiasAdd.
        inputs: parts of each axis of each input.
        output: parts of the output's axes where that is asked for, else None: it follows.
        shapes: of the inputs in letters of the schema; rows are samples · tokens.
    """

    cell: str
    operator: str
    inputs: tuple[Split, ...]
    output: Split | None
    shapes: tuple[str, ...]


def strategies(config: ModelConfig, layout: Layout) -> tuple[Strategy, ...]:
    """One for each operator with a parameter, layer by layer the same; norms follow from their neighbours."""
    rows = {param.name: param for param in PARAMS if param.when(config)}
    if config.tie_word_embeddings:
        rows["head.weight"] = Param("head.weight", "v d", 0)  # the embedding's table, read as weights
    maps = {name.removesuffix(".weight"): param for name, param in rows.items() if len(param.shape.split()) == 2}
    found = []
    for cell, param in maps.items():
        found.append(_table(cell, param, layout) if cell in TABLES else _product(cell, param, layout))
        if bias := rows.get(f"{cell}.bias"):
            found.append(_bias(cell, param, bias, layout))
    return tuple(found)


def strategies_table(config: ModelConfig, layout: Layout) -> Table:
    """The same for the eye."""
    rows = [(s.cell, s.operator, ", ".join(f"({shape})" for shape in s.shapes), ", ".join(map(_text, s.inputs)),
             "follows" if s.output is None else _text(s.output)) for s in strategies(config, layout)]  # fmt: skip
    return Table(f"Strategies of our model for {layout}; not verified on a card",
                 ("cell", "operator", "shapes", "inputs split into", "output"), rows)  # fmt: skip


def _text(split: Split) -> str:
    return " × ".join(map(str, split))


def _table(cell: str, param: Param, layout: Layout) -> Strategy:
    parts = 1 if param.tp is None else layout.tp
    ids = (layout.dp, 1) if param.tp is not None else (1, 1)  # positions are the same for every sample
    return Strategy(cell, "Gather", ((parts, 1), ids), None, (param.shape, "B T" if param.tp is not None else "1 T"))


def _product(cell: str, param: Param, layout: Layout) -> Strategy:
    out, inner = param.shape.split()
    columns, rows = (layout.tp, 1) if param.tp == 0 else (1, layout.tp)
    summed = (layout.dp * layout.tp, 1) if layout.sequence_parallel and rows > 1 else None
    return Strategy(cell, "MatMul", ((layout.dp, rows), (columns, rows)), summed, (f"rows {inner}", f"{out} {inner}"))


def _bias(cell: str, param: Param, bias: Param, layout: Layout) -> Strategy:
    parts = layout.tp if bias.tp == 0 else 1
    whole = layout.sequence_parallel and param.tp == 1 and layout.tp > 1
    return Strategy(cell, "BiasAdd", ((layout.dp * layout.tp if whole else layout.dp, parts), (parts,)), None,
                    (f"rows {bias.shape}", bias.shape))  # fmt: skip
