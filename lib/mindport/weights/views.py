"""Looking before converting: both lists of names, the table of renames, and who has a bias."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from mindport.config import ModelConfig, dialect_for, inspect_config, schema
from mindport.config.dialect import Dialect
from mindport.config.schema import LAYER
from mindport.config.targets import TARGETS, Target
from mindport.errors import ConfigError, UsageError, some
from mindport.results import Result
from mindport.tables import Table
from mindport.weights.dtypes import CODES, NUMPY
from mindport.weights.jobs import moves
from mindport.weights.names import by_pattern, natural, pattern
from mindport.weights.plan import Step, foreign_shapes, named_by, plan, table
from mindport.weights.readers import open_hf
from mindport.weights.store import load


@dataclass(frozen=True)
class KeyDifference(Result):
    """Two sorted lists of names and their difference both ways; equal lists are a pass.

    Attributes:
        left, right: what the lists are.
        left_names, right_names: all of them, in natural order.
    """

    left: str
    right: str
    left_names: tuple[str, ...]
    right_names: tuple[str, ...]

    @property
    def only_left(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.left_names) - set(self.right_names), key=natural))

    @property
    def only_right(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.right_names) - set(self.left_names), key=natural))

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
        nothing = ("", "")
        sides = (by_pattern(self.only_left).items(), by_pattern(self.only_right).items())
        rows = [(*left, *right) for left, right in itertools.zip_longest(*sides, fillvalue=nothing)]
        columns = (f"only in {self.left}", "names", f"only in {self.right}", "names")
        return (Table(f"Difference both ways ({LAYER} is the layer)", columns, rows),) if rows else ()


def key_difference(src: Path | str, dialect: Dialect | None = None, *, renamed: bool = False) -> KeyDifference:
    """Compare the names in a Hugging Face directory with the MindSpore model's.

    Args:
        src: the directory.
        dialect: the family; None for the one that config.json names.
        renamed: False compares the raw lists, in which nearly everything differs; True translates the model's names
            through the family's table first, after which nothing may.
    """
    config, reader = inspect_config(src), open_hf(src)  # to look at names, an unknown key does not matter
    if config.model is None:
        raise ConfigError("this configuration makes no model", where=config.path, got=some(config.problems, 5))
    if not renamed:
        wanted, right = list(schema.shapes(config.model)), "the MindSpore model"
    else:
        known = dialect or config.dialect
        wanted, right = named_by(known, config.model, reader.infos), "the table of " + known.model_type
    left_names, right_names = (tuple(sorted(names, key=natural)) for names in (reader.infos, wanted))
    return KeyDifference("the Hugging Face files", right, left_names, right_names)


def name_table(dialect: Dialect, config: ModelConfig) -> Table:
    """Every rename of a family, one row for all layers: Hugging Face ↔ MindSpore, with layouts and shapes."""
    made, have = table(dialect, config), schema.shapes(config)
    right = foreign_shapes(made)
    rows = {}
    for step in made.steps:
        foreign, hub = pattern(step.foreign), tuple(map(pattern, step.hub))
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
        old, new = (", ".join(map(pattern, names)) for names in (move.sources, move.targets))
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
            (weights if what == "weight" else biases)[pattern(module)] += 1
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
    """One hub parameter in the source and under each target that can hold the model: where it lies, and how.

    A tensor that holds several parameters (a fused QKV) is shown whole, as that side stores it.

    Raises:
        UsageError: the model has no such parameter.
    """
    weights, reader = load(directory, check=False), open_hf(src)
    shapes = {name: info.shape for name, info in reader.infos.items()}
    made = plan(dialect_for(weights.config.model_type), weights.config, shapes, src)
    step = next((step for step in made.steps if name in step.hub), None)
    if step is None:
        raise UsageError("no such parameter", got=name, expected=some(weights, 5))
    rows = [_stored("Hugging Face", step, [reader.read(step.foreign)])]
    for target in TARGETS.values():
        if not target.unmet(weights.config):
            step = next(step for step in table(target.dialect, weights.config).steps if name in step.hub)
            parts = [weights[part] for part in step.hub]
            one = len({part.dtype for part in parts}) == 1  # else the conversion refuses to join them
            rows.append(_stored(target.name, step, [step.layout.to_foreign(parts)] if one else parts))
    return Table(f"{name} under each name", ("side", "name", "layout", "shape", "dtype", "first values"), rows)


def _stored(side: str, step: Step, tensors: Sequence[np.ndarray]) -> tuple[object, ...]:
    """A row: the tensor as a side stores it; several that it cannot join have no common first values."""
    dtypes = ", ".join(str(x.dtype) for x in tensors)
    first = _first(tensors[0]) if len(tensors) == 1 else "several precisions, not joined"
    return side, step.foreign, step.layout.name, step.foreign_shape, dtypes, first


def _first(x: np.ndarray) -> list[str]:
    return [f"{float(value):.4g}" for value in x.reshape(-1)[:3]]
