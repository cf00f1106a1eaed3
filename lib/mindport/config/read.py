"""config.json → `ModelConfig`, with a class for every key and a source for every field.

Each key ends in exactly one class: mapped · derived · harmless · refused · unknown. Refused stops; unknown stops
unless it is allowed by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mindport.config import schema
from mindport.config.constraints import Constraint, constraints
from mindport.config.dialect import REQUIRED, Derived, Dialect, Field
from mindport.config.dialects import dialect_for
from mindport.config.model_config import ModelConfig
from mindport.config.rope import SPELLINGS, join_rope
from mindport.config.vocabulary import Vocabulary, read_vocabulary
from mindport.errors import ConfigError, FileError, some
from mindport.files import read_json
from mindport.results import Property, Result, verdict
from mindport.tables import Table

ALLOW = "; let an unknown key that you know to be harmless pass: --allow KEY"
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
        broken = [f"not true that {c.name}: {c.got}, expected {c.expected}; {c.do}" for c in self.constraints if not c.ok]
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


def read_config(path: Path | str, allow: Sequence[str] = ()) -> ConfigReport:
    """Read a config.json that must go across.

    Args:
        path: a Hugging Face directory, or its config.json.
        allow: unknown keys that the user knows to be harmless.

    Raises:
        FileError: no config.json there, or not JSON.
        ConfigError: the family is not supported, or a key, field or constraint stops it.
    """
    report = inspect_config(path, allow)
    if not report.ok:
        raise ConfigError(
            "this configuration cannot go across",
            where=report.path,
            got="; ".join(report.problems),
            do=f"see every key: mindport config {report.path}" + ALLOW * any(k.state == "unknown" for k in report.keys),
        )
    return report


def inspect_config(path: Path | str, allow: Sequence[str] = ()) -> ConfigReport:
    """As `read_config`, but what stops the configuration is in the report instead of raised."""
    file = find_config(Path(path))
    raw = read_json(file)
    if not isinstance(raw, dict):
        raise ConfigError("config.json must hold one object", where=file, got=type(raw).__name__)
    dialect = dialect_for(raw.get("model_type"))
    joined, faults = _join(raw, dialect)
    rows, values = _fields(joined, dialect, faults)
    faults = {_spelled(key, raw): note for key, note in faults.items()}
    keys = tuple(_key(key, value, dialect, faults, allow) for key, value in raw.items())
    complete = not faults and all(row.source not in ("missing", "unusable") for row in rows)
    model = ModelConfig(model_type=dialect.model_type, **values) if complete else None
    vocabulary = read_vocabulary(file.parent, dialect)
    return ConfigReport(
        path=file, model_type=dialect.model_type, keys=keys, fields=tuple(rows),
        constraints=constraints(model, vocabulary, raw) if model else (), vocabulary=vocabulary,
        figures=figures(model) if model else {}, model=model, raw=raw,
    )  # fmt: skip


def find_config(path: Path) -> Path:
    """The config.json that `path` is or holds.

    Raises:
        FileError: says which of the usual mistakes it is: nothing there, an unfinished download, another format.
    """
    if path.is_file():
        return path
    if (path / "config.json").is_file():
        return path / "config.json"
    if not path.exists():
        raise FileError("there is no such directory", where=path, do="name a Hugging Face directory")
    names = sorted(item.name for item in path.iterdir())
    if not names:
        what, do = "the directory is empty", "the download has not begun, or this is another folder"
    elif any(name.endswith(".gguf") for name in names):
        what, do = "GGUF files, not a Hugging Face directory", "use the original safetensors; `mindport fetch` reads its own"
    else:
        what, do = "no config.json here", "name the folder that holds config.json, or finish the download"
    raise FileError(what, where=path, got=some(names, 5) or None, expected="config.json and weights", do=do)


def figures(config: ModelConfig) -> dict[str, int]:
    """Sizes that follow: parameters, bytes of weights in two precisions, KV cache bytes per token (16 bit)."""
    parameters = schema.count(config)
    cache = 2 * config.num_hidden_layers * config.dims["k"]
    return {
        "parameters": parameters,
        "embedding parameters": config.vocab_size * config.hidden_size,
        "bytes in float32": 4 * parameters,
        "bytes in float16 / bfloat16": 2 * parameters,
        "KV cache bytes per token (16 bit)": 2 * cache,
        "query heads per key/value head": config.num_attention_heads // config.num_key_value_heads,
    }


Faults = dict[str, str]  # key of config.json → what would be right


def _join(raw: Mapping[str, Any], dialect: Dialect) -> tuple[dict[str, Any], Faults]:
    """`raw` with the spellings of dtype and rope joined into one key each."""
    joined, faults = dict(raw), {}
    for key, old in (("dtype", "torch_dtype"),):
        both = [raw[name] for name in (key, old) if raw.get(name) is not None]
        joined[key] = both[0] if both else None
        if len({str(value).removeprefix("torch.") for value in both}) > 1:
            faults[old] = f"{key} says {both[0]!r}"
    if _reads(dialect, "rope_parameters"):
        try:
            joined["rope_parameters"] = join_rope(raw)
        except ValueError as expected:
            faults["rope_parameters"] = f"expected {expected}"
    return joined, faults


def _fields(raw: Mapping[str, Any], dialect: Dialect, faults: Faults) -> tuple[list[FieldSource], dict[str, Any]]:
    rows = [_field(field, raw, dialect, faults) for field in dialect.fields]
    rows = [replace(row, field=name) for row in rows for name in row.field.split()]
    rows += [_constant(name, value, raw, dialect) for name, value in dialect.constants.items()]
    return rows, {row.field: row.value for row in rows}


def _constant(name: str, value: Any, raw: Mapping[str, Any], dialect: Dialect) -> FieldSource:
    if isinstance(value, Derived):
        return _derive(name, value, lambda item: item, raw)
    return FieldSource(name, value, "family", dialect.model_type)


def _field(field: Field, raw: Mapping[str, Any], dialect: Dialect, faults: Faults) -> FieldSource:
    """Value and source of one field; a bad value goes into `faults`."""
    value = raw.get(field.key)
    if value is None:
        return _absent(field, raw, dialect)
    try:
        return FieldSource(field.name, field.read(value), "explicit", field.key)
    except ValueError as expected:
        faults.setdefault(field.key, f"expected {expected}")
        return FieldSource(field.name, None, "unusable", f"see {field.key}")


def _absent(field: Field, raw: Mapping[str, Any], dialect: Dialect) -> FieldSource:
    if field.absent is REQUIRED:
        return FieldSource(field.name, None, "missing", f"the key {field.key} is missing")
    if isinstance(field.absent, Derived):
        return _derive(field.name, field.absent, field.read, raw)
    if field.absent is None:
        return FieldSource(field.name, None, "default", "the file names none")
    return FieldSource(field.name, field.read(field.absent), "default", f"{field.key} of {dialect.config_class}")


def _derive(name: str, derived: Derived, read: Callable[[Any], Any], raw: Mapping[str, Any]) -> FieldSource:
    try:
        return FieldSource(name, read(derived.compute(raw)), "derived", derived.how)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return FieldSource(name, None, "missing", f"{name} does not follow: {derived.how}")


def _key(key: str, value: Any, dialect: Dialect, faults: Faults, allow: Sequence[str]) -> Key:
    """The class of one key: the first rule that knows it."""
    rules = (_faulty, _identity, _refusal, _mapped, _harmless)
    for rule in rules:
        if found := rule(key, value, dialect, faults):
            return found
    if key in allow:
        return Key(key, value, "harmless", "allowed by name")
    return Key(key, value, "unknown", "no table knows this key; if it is harmless, allow it by name")


def _faulty(key: str, value: Any, dialect: Dialect, faults: Faults) -> Key | None:
    return Key(key, value, "refused", faults[key]) if key in faults else None


def _identity(key: str, value: Any, dialect: Dialect, faults: Faults) -> Key | None:
    if key == "model_type":
        return Key(key, value, "mapped", f"the table of {dialect.model_type}")
    if key == "architectures" and value is not None and value != [dialect.architecture]:
        return Key(key, value, "refused", f"expected ['{dialect.architecture}']: other classes have other heads")
    return None


def _refusal(key: str, value: Any, dialect: Dialect, faults: Faults) -> Key | None:
    for refusal in dialect.refused:
        if refusal.key == key:
            allowed = any(value == item and type(value) is type(item) for item in refusal.allowed)
            note = "at its only supported value" if allowed else refusal.reason
            return Key(key, value, "harmless" if allowed else "refused", note)
    return None


def _mapped(key: str, value: Any, dialect: Dialect, faults: Faults) -> Key | None:
    name = {"torch_dtype": "dtype"}.get(key, key)
    if key in SPELLINGS and _reads(dialect, "rope_parameters"):
        name = "rope_parameters"
    for field in dialect.fields:
        if field.key == name:
            if value is None and isinstance(field.absent, Derived):
                return Key(key, value, "derived", f"→ {field.name} = {field.absent.how}")
            return Key(key, value, "mapped", f"→ {field.name}")
    return None


def _harmless(key: str, value: Any, dialect: Dialect, faults: Faults) -> Key | None:
    return Key(key, value, "harmless", dialect.harmless[key]) if key in dialect.harmless else None


def _reads(dialect: Dialect, key: str) -> bool:
    return any(field.key == key for field in dialect.fields)


def _spelled(key: str, raw: Mapping[str, Any]) -> str:
    """The key that the file itself uses for a joined one."""
    spellings = {"rope_parameters": SPELLINGS, "dtype": ("dtype", "torch_dtype")}.get(key, (key,))
    return next((name for name in spellings if raw.get(name) is not None), key)


def _short(value: Any) -> Any:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"
