"""Looking before converting: both lists of names, the table of renames, and who has a bias."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from mindport.config import ModelConfig, dialect_for, read_config, schema
from mindport.config.dialect import Dialect
from mindport.config.schema import LAYER
from mindport.config.targets import Target
from mindport.errors import UsageError, some
from mindport.results import Result
from mindport.tables import Table
from mindport.weights.dtypes import CODES, NUMPY
from mindport.weights.jobs import moves
from mindport.weights.plan import foreign_shapes, plan, table
from mindport.weights.readers import open_hf
from mindport.weights.store import load


@dataclass(frozen=True)
class KeyDifference(Result):
    """Two sorted lists of names and their difference both ways; equal lists are a pass.

    Attributes:
        left, right: what the lists are.
        left_names, right_names: sorted.
    """

    left: str
    right: str
    left_names: tuple[str, ...]
    right_names: tuple[str, ...]

    @property
    def only_left(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.left_names) - set(self.right_names)))

    @property
    def only_right(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.right_names) - set(self.left_names)))

    @property
    def ok(self) -> bool:
        return not self.only_left and not self.only_right

    def headline(self) -> str:
        both = len(set(self.left_names) & set(self.right_names))
        return (
            f"{len(self.left_names)} names in {self.left}, {len(self.right_names)} in {self.right}: {both} in both, "
            f"{len(self.only_left)} only in the first, {len(self.only_right)} only in the second"
        )

    def tables(self) -> tuple[Table, ...]:
        rows = list(itertools.zip_longest(self.only_left, self.only_right))
        columns = (f"only in {self.left}", f"only in {self.right}")
        return (Table("Difference both ways", columns, rows),) if rows else ()


def key_difference(src: Path | str, dialect: Dialect | None = None, *, renamed: bool = False) -> KeyDifference:
    """Compare the names in a Hugging Face directory with the MindSpore model's.

    Args:
        src: the directory.
        dialect: the family; None for the one that config.json names.
        renamed: False compares the raw lists, in which nearly everything differs; True translates the model's names
            through the family's table first, after which nothing may.
    """
    config, reader = read_config(src), open_hf(src)
    assert config.model is not None
    if not renamed:
        wanted, right = list(schema.shapes(config.model)), "the MindSpore model"
    else:
        known = dialect or config.dialect
        prefix = known.prefix if any(known.prefix and name.startswith(known.prefix) for name in reader.infos) else ""
        wanted, right = list(foreign_shapes(table(known, config.model, prefix))), "the table of " + known.model_type
    return KeyDifference("the Hugging Face files", right, tuple(sorted(reader.infos)), tuple(sorted(wanted)))


def name_table(dialect: Dialect, config: ModelConfig) -> Table:
    """Every rename of a family, one row for all layers: Hugging Face ↔ MindSpore, with layouts and shapes."""
    made, have = table(dialect, config), schema.shapes(config)
    right = foreign_shapes(made)
    rows = {}
    for step in made.steps:
        foreign, hub = _pattern(step.foreign), tuple(map(_pattern, step.hub))
        rows[foreign] = (foreign, right[step.foreign], step.layout.name, ", ".join(hub), have[step.hub[0]])
    title = f"{dialect.model_type}: Hugging Face ↔ MindSpore ({LAYER} is the layer)"
    return Table(
        title, ("Hugging Face", "shape", "layout", "MindSpore", "its shape (of the first)"), list(rows.values())
    )


def rename_table(dialect: Dialect, target: Target, config: ModelConfig) -> Table:
    """Hugging Face's names beside a target's, one row for all layers: q_proj → attention.wq.

    Raises:
        ConfigError: the target cannot hold this model.
    """
    target.check(config)
    before, after = table(dialect, config).steps, table(target.dialect, config).steps
    layouts = {step.foreign: step.layout.name for step in (*before, *after)}
    rows = {}
    for move in moves(before, after):
        old, new = (", ".join(map(_pattern, names)) for names in (move.sources, move.targets))
        names = dict.fromkeys(layouts[name] for name in (*move.sources, *move.targets))
        rows[old] = (old, ", ".join(name for name in names if name != "same") or "same", new)
    title = f"{dialect.model_type} → {target.name} ({LAYER} is the layer)"
    return Table(title, ("Hugging Face", "layout", target.name), list(rows.values()))


def bias_census(src: Path | str) -> Table:
    """Which modules of a checkpoint have a bias, counted over the layers."""
    weights: dict[str, int] = defaultdict(int)
    biases: dict[str, int] = defaultdict(int)
    for name in open_hf(src).infos:
        module, _, what = name.rpartition(".")
        if what in ("weight", "bias"):
            (weights if what == "weight" else biases)[_pattern(module)] += 1
    rows = [(m, weights[m], biases[m], "yes" if biases[m] == weights[m] else "no" if not biases[m] else "some")
            for m in dict.fromkeys([*weights, *biases])]  # fmt: skip
    return Table("Bias census", ("module", "weights", "biases", "bias?"), sorted(rows))


def dtype_policy(src: Path | str) -> Table:
    """What each policy would make of a checkpoint's precisions: size, and whether values can change.

    From the headers alone; what does change is measured while converting.
    """
    infos = open_hf(src).infos
    held = {info.dtype for info in infos.values() if info.dtype in NUMPY}
    numbers = sum(math.prod(info.shape) for info in infos.values())
    kept = sum(info.nbytes for info in infos.values())
    rows = [("keep", f"{kept / 1e6:,.1f}", f"exact: stays {', '.join(sorted(held))}", "")]
    for policy, code in CODES.items():
        exact = held == {code} or code == "F32"
        values = "exact" if exact else "rounded; the largest change is reported"
        finite = f"{float(ml_dtypes.finfo(NUMPY[code]).max):.3g}"
        rows.append((policy, f"{numbers * NUMPY[code].itemsize / 1e6:,.1f}", values, finite))
    return Table("Precision of the converted weights", ("dtype", "MB", "values", "largest finite value"), rows)


def tensor_under_each_name(src: Path | str, directory: Path | str, name: str) -> Table:
    """One hub parameter on both sides: names, shapes, precisions and first values, before and after.

    Raises:
        UsageError: the model has no such parameter.
    """
    weights, reader = load(directory, check=False), open_hf(src)
    shapes = {name: info.shape for name, info in reader.infos.items()}
    made = plan(dialect_for(weights.config.model_type), weights.config, shapes, src)
    step = next((step for step in made.steps if name in step.hub), None)
    if step is None:
        raise UsageError("no such parameter", got=name, expected=some(weights, 5))
    x, y = reader.read(step.foreign), weights[name]
    return Table(f"{name}, by layout {step.layout.name}", ("side", "name", "shape", "dtype", "first values"), [
        ("Hugging Face", step.foreign, x.shape, str(x.dtype), _first(x)),
        ("MindSpore", name, y.shape, str(y.dtype), _first(y)),
    ])  # fmt: skip


def _pattern(name: str) -> str:
    return re.sub(r"(^|\.)\d+(?=\.|$)", rf"\g<1>{LAYER}", name)


def _first(x: np.ndarray) -> list[str]:
    return [f"{float(value):.4g}" for value in x.reshape(-1)[:3]]
