"""What becomes of each source tensor, decided from names and shapes before any value is read.

    source tensor ─┬─ converted: a row of the family's table turns it into hub parameter(s)
                   ├─ tied: the head's copy of the embedding, dropped once it proves equal
                   └─ dropped: a buffer that the table names exactly

Everything else stops. The accounting closes when every source tensor has one fate and every hub parameter one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mindport.config import ModelConfig, schema
from mindport.config.dialect import Dialect, Row
from mindport.config.wrappers import prefix_of, wrappers_of
from mindport.errors import MappingError, some
from mindport.weights.hints import hints, signs
from mindport.weights.layouts import Layout, Shape, layout
from mindport.weights.names import natural

HEAD, EMBED = "head.weight", "embed.weight"
FateName = Literal["converted", "tied", "dropped"]


@dataclass(frozen=True, slots=True)
class Step:
    """A row of the table for one layer: hub parameter(s), with their shapes ↔ one foreign tensor."""

    hub: tuple[str, ...]
    foreign: str
    layout: Layout
    shapes: tuple[Shape, ...]

    @property
    def foreign_shape(self) -> Shape:
        return self.layout.foreign_shape(self.shapes)

    def parts(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """The hub's parameters in the values of the foreign tensor."""
        return dict(zip(self.hub, self.layout.to_hub(x, self.shapes), strict=True))


@dataclass(frozen=True)
class Plan:
    """The fate of every tensor of a checkpoint.

    Attributes:
        dialect: the family.
        config: the model.
        prefix: what the file puts before every name but the head's, which has the wrappers of it alone.
        steps: what is converted, in the hub's order.
        tied: foreign copies of the embedding under the head's name.
        dropped: buffers, by exact name.
    """

    dialect: Dialect
    config: ModelConfig
    prefix: str
    steps: tuple[Step, ...]
    tied: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def embedding(self) -> str:
        """The foreign name of the embedding matrix."""
        return next(step.foreign for step in self.steps if step.hub == (EMBED,))

    def fates(self) -> dict[str, FateName]:
        """Source tensor → what becomes of it."""
        fates: dict[str, FateName] = {step.foreign: "converted" for step in self.steps}
        return fates | dict.fromkeys(self.tied, "tied") | dict.fromkeys(self.dropped, "dropped")


def plan(dialect: Dialect, config: ModelConfig, shapes: Mapping[str, Shape | None], where: object = None) -> Plan:
    """Decide the fate of every tensor.

    Args:
        dialect: the family's table.
        config: the model that the tensors should make.
        shapes: source tensor → shape; None where only names are known (an index).
        where: the directory, for messages.

    Raises:
        MappingError: some tensor is missing, unexpected, or of a wrong shape; all are named, with what they suggest.
    """
    prefix = _prefix(dialect, config, shapes, where)
    made = table(dialect, config, prefix)
    expected = {step.foreign for step in made.steps}
    tied = tuple(name for name in _tied_names(dialect, config, prefix) if name in shapes)
    dropped = tuple(name for name in sorted(_buffers(dialect, config, prefix)) if name in shapes)
    missing = sorted(expected - shapes.keys(), key=natural)
    unexpected = sorted(shapes.keys() - expected - {*tied, *dropped}, key=natural)
    wrong = _wrong_shapes(made, tied, shapes)
    if missing or unexpected or wrong:
        raise _disagreement(made, missing, unexpected, wrong, where)
    return Plan(dialect, config, prefix, made.steps, tied, dropped)


def table(dialect: Dialect, config: ModelConfig, prefix: str | None = None) -> Plan:
    """The family's table with the layers filled in and the parameters that this model lacks left out.

    Args:
        dialect: the family.
        config: the model.
        prefix: what stands before the names; None for the one that the reference's class writes.

    Raises:
        MappingError: the table does not cover the hub: a fault of the table itself.
    """
    prefix = dialect.prefix if prefix is None else prefix
    have = schema.shapes(config)
    steps = [step for row in dialect.rows for step in _steps(row, dialect, config, have, prefix)]
    written = [name for step in steps for name in step.hub]
    if sorted(written) != sorted(have):
        odd = sorted(set(have) ^ set(written)) or sorted({n for n in written if written.count(n) > 1})
        raise MappingError(f"the table of {dialect.model_type} must give each parameter one row", got=some(odd))
    place = {name: i for i, name in enumerate(have)}
    return Plan(dialect, config, prefix, tuple(sorted(steps, key=lambda step: place[step.hub[0]])))


def named_by(dialect: Dialect, config: ModelConfig, names: Iterable[str]) -> list[str]:
    """The foreign names that the table has a place for, as `names` spell them: the tensors of the model, and those
    of the known buffers and of a tied head's copies that are there."""
    names = set(names)
    prefix = _prefix(dialect, config, names, None)
    extra = {*_tied_names(dialect, config, prefix), *_buffers(dialect, config, prefix)}
    return [*foreign_shapes(table(dialect, config, prefix)), *sorted(extra & names)]


def unwrapped(dialect: Dialect, config: ModelConfig, names: Iterable[str]) -> dict[str, str]:
    """The name that the family's class gives a tensor of the model → the one with wrappers that the file gives it;
    empty where no wrapper stands before the names."""
    names = set(names)
    prefix = _prefix(dialect, config, names, None)
    if not wrappers_of(dialect, prefix):
        return {}
    pairs = zip(table(dialect, config).steps, table(dialect, config, prefix).steps, strict=True)
    return {plain.foreign: step.foreign for plain, step in pairs if step.foreign in names}


def foreign_shapes(made: Plan) -> dict[str, Shape]:
    """Foreign tensor → the shape it must have."""
    return {step.foreign: step.foreign_shape for step in made.steps}


def _steps(row: Row, dialect: Dialect, config: ModelConfig, have: Mapping[str, Shape], prefix: str) -> Iterable[Step]:
    """The steps of a row, for the parameters that the model has."""
    hub = zip(*(schema.expand(name, config) for name in row.hub.split()), strict=True)
    foreign, how = schema.expand(_prefixed(row, dialect, prefix), config), layout(row.layout, config)
    return [
        Step(names, name, how, tuple(have[n] for n in names))
        for names, name in zip(hub, foreign, strict=True)
        if all(n in have for n in names)
    ]


def _prefixed(row: Row, dialect: Dialect, prefix: str) -> str:
    return (wrappers_of(dialect, prefix) if row.hub == HEAD else prefix) + row.foreign


def _prefix(dialect: Dialect, config: ModelConfig, names: Iterable[str], where: object) -> str:
    """What the names begin with; only names that the table knows take part, and they must agree."""
    known = {row.foreign for row in dialect.rows if row.hub != HEAD}
    known = {name for pattern in known for name in schema.expand(pattern, config)}
    fronts: dict[str, str] = {}
    for name in sorted(names):
        if (front := prefix_of(dialect, name, known)) is not None:
            fronts.setdefault(front, name)
    if len(fronts) > 1:
        longest = max(fronts, key=len)
        raise MappingError("some names have the prefix and some have not", where=where, got=some(fronts.values()),
                           expected=f"all with {longest!r}, or none", do="save the model again")  # fmt: skip
    return next(iter(fronts), "")


def _tied_names(dialect: Dialect, config: ModelConfig, prefix: str) -> list[str]:
    if not config.tie_word_embeddings:
        return []
    return [_prefixed(row, dialect, prefix) for row in dialect.rows if row.hub == HEAD]


def _buffers(dialect: Dialect, config: ModelConfig, prefix: str) -> set[str]:
    return {prefix + name for pattern in dialect.dropped for name in schema.expand(pattern, config)}


def _wrong_shapes(
    made: Plan, tied: Iterable[str], shapes: Mapping[str, Shape | None]
) -> dict[str, tuple[Shape, Shape]]:
    """Tensor → (its shape, the shape it should have)."""
    right = foreign_shapes(made)
    right |= dict.fromkeys(tied, right[made.embedding])
    pairs = {name: (shapes.get(name), shape) for name, shape in right.items()}
    return {name: (got, shape) for name, (got, shape) in pairs.items() if got is not None and got != shape}


def _disagreement(
    made: Plan, missing: list[str], unexpected: list[str], wrong: Mapping[str, tuple[Shape, Shape]], where: object
) -> MappingError:
    family, matched = made.dialect.model_type, len(made.steps) - len(missing)
    shapes = [f"{name} {list(got)} instead of {list(right)}" for name, (got, right) in wrong.items()]
    parts = [
        f"{len(names)} {what}: {some(names, 4)}"
        for what, names in (("missing", missing), ("unexpected", unexpected), ("of wrong shape", shapes))
        if names
    ]
    found = hints(made.dialect, made.config, missing, unexpected, wrong)
    what = f"the tensors do not match the table of {family}"
    if not matched:
        what = f"not one tensor is in the table of {family}"
        found = signs(unexpected)
    return MappingError(
        what, where=where, got="; ".join(parts),
        expected=f"each of the {len(made.steps)} tensors of the table, and nothing else ({matched} found)",
        do=" ".join(found) or "compare both lists with `mindport.weights.key_difference`",
    )  # fmt: skip
