"""What became of a config.json: every key, every field, every constraint, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mindport.config.constraints import Constraint
from mindport.config.dialect import Dialect
from mindport.config.dialects import dialect_for
from mindport.config.model_config import ModelConfig
from mindport.config.vocabulary import Vocabulary
from mindport.errors import some
from mindport.results import Property, Result, verdict
from mindport.tables import Table

KeyClass = Literal["mapped", "derived", "harmless", "refused", "unknown"]
Source = Literal["explicit", "derived", "default", "family", "missing", "unusable"]


@dataclass(frozen=True)
class Key:
    """A key of config.json: its value, its class, and where it went or why it stops."""

    key: str
    value: Any
    state: KeyClass
    note: str


@dataclass(frozen=True)
class FieldSource:
    """A field of `ModelConfig`: its value and where that came from."""

    field: str
    value: Any
    source: Source
    note: str


@dataclass(frozen=True)
class ConfigReport(Result):
    """What became of a config.json.

    Attributes:
        path: the file.
        model_type: the family.
        keys: a row for every key of the file.
        fields: a row for every field of `ModelConfig`.
        constraints: what must hold between the values.
        vocabulary: sizes according to config, tokenizer and embedding.
        figures: derived sizes: parameters, bytes, KV cache.
        model: the result, None when something stops it.
        raw: the file as parsed.
    """

    path: Path
    model_type: str
    keys: tuple[Key, ...]
    fields: tuple[FieldSource, ...]
    constraints: tuple[Constraint, ...]
    vocabulary: Vocabulary
    figures: dict[str, int]
    model: ModelConfig | None
    raw: dict[str, Any]

    @property
    def dialect(self) -> Dialect:
        return dialect_for(self.model_type)

    @property
    def problems(self) -> list[str]:
        """What stops this configuration, one sentence each."""
        keys = [f"{row.key} is {row.state}: {row.note}" for row in self.keys if row.state in ("refused", "unknown")]
        missing = [row.note for row in self.fields if row.source == "missing"]
        broken = [
            f"not true that {c.name}: {c.got}, expected {c.expected}; {c.do}" for c in self.constraints if not c.ok
        ]
        return keys + missing + broken

    @property
    def ok(self) -> bool:
        return self.model is not None and not self.problems

    def headline(self) -> str:
        if not self.ok:
            return f"{self.path}: this configuration cannot go across: {some(self.problems, 5)}"
        counts = ", ".join(f"{sum(k.state == s for k in self.keys)} {s}" for s in ("mapped", "derived", "harmless"))
        return f"{self.model_type}: {len(self.keys)} keys ({counts}), {self.figures['parameters']:,} parameters"

    def tables(self) -> tuple[Table, ...]:
        return self.key_table(), self.field_table(), self.constraint_table(), self.figure_table()

    def key_table(self) -> Table:
        """Every key of the file, and where it went."""
        return Table("Every key of config.json", ("key", "value", "class", "where it went, or why"),
                     [(k.key, _short(k.value), k.state, k.note) for k in self.keys])  # fmt: skip

    def field_table(self) -> Table:
        """Every field of the model, and where it came from."""
        return Table("Every field of ModelConfig", ("field", "value", "source", "note"),
                     [(f.field, _short(f.value), f.source, f.note) for f in self.fields])  # fmt: skip

    def constraint_table(self) -> Table:
        """What must hold between the values."""
        return Table("Constraints", ("constraint", "state", "got", "expected", "what to do"),
                     [(c.name, c.state, c.got, c.expected, c.do) for c in self.constraints])  # fmt: skip

    def figure_table(self) -> Table:
        """Sizes that follow."""
        return Table("Derived figures", ("figure", "value"), list(self.figures.items()))

    def properties(self) -> tuple[Property, ...]:
        stopped = sum(key.state in ("refused", "unknown") for key in self.keys)
        failed = sum(not constraint.ok for constraint in self.constraints)
        figure = f"{len(self.keys)} keys, {stopped} stopped"
        return (
            verdict("every key of config.json has a class and a source", self.model is not None and not stopped,
                    "the family's table", figure, "none"),
            verdict("heads, vocabulary and tokens agree", not failed, "config, tokenizer and embedding compared",
                    f"{len(self.constraints)} constraints, {failed} failed", "none"),
        )  # fmt: skip


def _short(value: Any) -> Any:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
