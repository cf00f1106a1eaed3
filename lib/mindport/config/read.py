"""config.json → `ModelConfig`, with a class for every key and a source for every field.

Each key ends in exactly one class: mapped · derived · harmless · refused · unknown. Refused stops; unknown stops
unless it is allowed by name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mindport.config.constraints import constraints
from mindport.config.dialect import REQUIRED, Derived, Dialect, Field, Refusal
from mindport.config.dialects import DIALECTS, dialect_for
from mindport.config.dialects.common import REFUSED
from mindport.config.locate import find_config
from mindport.config.model_config import ModelConfig
from mindport.config.multimodal import check_plain
from mindport.config.readers import number, positive_float
from mindport.config.report import ConfigReport, FieldSource, Key
from mindport.config.rope import ECHOES, OBJECTS, join_rope, text_numbers
from mindport.config.schema import figures
from mindport.config.vocabulary import read_vocabulary
from mindport.errors import ConfigError, some
from mindport.files import read_json

ALLOW = "; let an unknown key that you know to be harmless pass: --allow KEY"
TEXT = "a number written as text"
Faults = dict[str, str]  # key of config.json → what would be right


def read_config(path: Path | str, allow: Sequence[str] = (), padded_vocab: int | None = None) -> ConfigReport:
    """Read a config.json that must go across.

    Args:
        path: a Hugging Face directory, or its config.json.
        allow: unknown keys that the user knows to be harmless.
        padded_vocab: rows of the embedding, where those beyond vocab_size are padding.

    Raises:
        FileError: no config.json there, or not JSON.
        ConfigError: the family is not supported, or a key, field or constraint stops it.
    """
    report = inspect_config(path, allow, padded_vocab)
    if not report.ok:
        raise ConfigError(
            "this configuration cannot go across",
            where=report.path,
            got="; ".join(report.problems),
            do=f"see every key: mindport config {report.path}" + ALLOW * any(k.state == "unknown" for k in report.keys),
        )
    return report


def inspect_config(path: Path | str, allow: Sequence[str] = (), padded_vocab: int | None = None) -> ConfigReport:
    """As `read_config`, but what stops the configuration is in the report instead of raised."""
    file = find_config(Path(path))
    raw = read_json(file)
    if not isinstance(raw, dict):
        raise ConfigError("config.json must hold one object", where=file, got=type(raw).__name__)
    remarks = _remarks(raw)
    check_plain(raw, file, DIALECTS, [remark for key, remark in remarks.items() if key != "text_config"])
    dialect = dialect_for(_family(raw), f"{file}: model_type", list(remarks.values()))
    plain, texts = _numbers(raw, dialect)
    joined, faults = _join(plain, dialect)
    rows = _fields(joined, dialect, faults, padded_vocab)
    rows = [replace(row, note=f"{row.note}; {TEXT}") if texts.keys() & _behind(row, dialect) else row for row in rows]
    faults = {_spelled(key, raw, dialect): note for key, note in faults.items()}
    keys = [_key(key, value, dialect, faults, allow) for key, value in raw.items()]
    keys = [replace(row, note=f"{row.note}; {texts[row.key]}") if row.key in texts else row for row in keys]
    complete = not faults and all(row.source not in ("missing", "unusable") for row in rows)
    values = {row.field: row.value for row in rows}
    model = ModelConfig(model_type=dialect.model_type, **values) if complete else None
    vocabulary = read_vocabulary(file.parent, dialect)
    return ConfigReport(
        path=file, model_type=dialect.model_type, keys=tuple(keys), fields=tuple(rows),
        constraints=constraints(model, vocabulary, raw) if model else (), vocabulary=vocabulary,
        figures=figures(model) if model else {}, model=model, raw=raw,
    )  # fmt: skip


def _family(raw: Mapping[str, Any]) -> Any:
    """The model_type; a multimodal file may have it a level below."""
    nested = raw.get("text_config")
    return raw.get("model_type") or (nested.get("model_type") if isinstance(nested, Mapping) else None)


def _remarks(raw: Mapping[str, Any]) -> dict[str, str]:
    """What stands against a file in any family, by the (first) key that says it."""
    keys: dict[str, list[str]] = {}
    for row in (_refusing(key, value, REFUSED) for key, value in raw.items()):
        if row and row.state == "refused":
            keys.setdefault(row.note, []).append(row.key)
    return {names[0]: f"{some(names)}: {note}" for note, names in keys.items()}


def _numbers(raw: Mapping[str, Any], dialect: Dialect) -> tuple[dict[str, Any], dict[str, str]]:
    """`raw` with the numbers that are written as text, and that mean nothing else, as numbers; and key → notice."""
    readers = {field.key: field.read for field in dialect.fields if field.key not in OBJECTS}
    readers |= dict.fromkeys(dialect.rope_keys, positive_float)
    readers |= {key: read for rule in dialect.derived().values() for key, read in rule.keys.items() if read}
    texts = {key: value for key, value in raw.items() if isinstance(value, str) and key in readers}
    found = {key: number(value, readers[key]) for key, value in texts.items()}
    found = {key: value for key, value in found.items() if value is not None}
    objects = {key: raw[key] for key in OBJECTS if key in _spellings(dialect) and isinstance(raw.get(key), Mapping)}
    inside = {key: numbers for key, value in objects.items() if (numbers := text_numbers(value))}
    notices = dict.fromkeys(found, TEXT) | {key: f"{', '.join(names)}: {TEXT}" for key, names in inside.items()}
    return {**raw, **found, **{key: {**objects[key], **numbers} for key, numbers in inside.items()}}, notices


def _behind(row: FieldSource, dialect: Dialect) -> Collection[str]:
    """The keys of config.json that a field was read from, as far as one of them may be a number written as text."""
    if rule := dialect.derived().get(row.field):
        return rule.keys
    return _spellings(dialect) if row.note == "rope_parameters" else (row.note,)


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
            joined["rope_parameters"] = join_rope(raw, dialect.rope_keys, dialect.rope_defaults, dialect.rope_over)
        except ValueError as expected:
            faults["rope_parameters"] = f"expected {expected}"
    return joined, faults


def _fields(
    raw: Mapping[str, Any], dialect: Dialect, faults: Faults, padded_vocab: int | None
) -> list[FieldSource]:  # fmt: skip
    rows = [_field(field, raw, dialect, faults) for field in dialect.fields]
    rows = [replace(row, field=name) for row in rows for name in row.field.split()]
    rows += [_constant(name, value, raw, dialect) for name, value in dialect.constants.items()]
    declared = [] if padded_vocab is None else [FieldSource("padded_vocab", padded_vocab, "explicit", "--padded-vocab")]
    return rows + declared


def _constant(name: str, value: Any, raw: Mapping[str, Any], dialect: Dialect) -> FieldSource:
    if isinstance(value, Derived):
        return _derive(name, value, lambda item: item, raw)
    return FieldSource(name, value, "family", dialect.model_type)


def _field(field: Field, raw: Mapping[str, Any], dialect: Dialect, faults: Faults) -> FieldSource:
    """Value and source of one field; a bad value goes into `faults`."""
    value = raw.get(field.key)
    if value is None and field.key in raw and _means_nothing(field):
        faults.setdefault(field.key, f"null says nothing; leave the key out for the default, {field.absent!r}")
        return FieldSource(field.name, None, "unusable", f"see {field.key}")
    if value is None:
        field = replace(field, absent=field.null) if field.null and field.key in raw else field
        return _absent(field, raw, dialect)
    try:
        return FieldSource(field.name, field.read(value), "explicit", field.key)
    except ValueError as expected:
        faults.setdefault(field.key, f"expected {expected}")
        return FieldSource(field.name, None, "unusable", f"see {field.key}")


def _means_nothing(field: Field) -> bool:
    """Whether null is no value of this key: the reference refuses it where the class has a plain default."""
    plain = not isinstance(field.absent, (Derived, Mapping)) and field.absent not in (REQUIRED, None)
    return plain and not field.null


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
    except ValueError as expected:
        return FieldSource(name, None, "missing", f"{name} does not follow ({derived.how}): expected {expected}")
    except (KeyError, TypeError, ArithmeticError):
        return FieldSource(name, None, "missing", f"{name} does not follow: {derived.how}")


def _key(key: str, value: Any, dialect: Dialect, faults: Faults, allow: Sequence[str]) -> Key:
    """The class of one key: the first rule that knows it."""
    rules = (_faulty, _identity, _refusal, _mapped, _derived, _harmless)
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
    return _refusing(key, value, dialect.refused)


def _refusing(key: str, value: Any, refusals: Iterable[Refusal]) -> Key | None:
    for refusal in refusals:
        if key in refusal.key.split():
            allowed = any(value == item and type(value) is type(item) for item in refusal.allowed)
            note = "at its only supported value" if allowed else refusal.note(value)
            return Key(key, value, "harmless" if allowed else "refused", note)
    return None


def _mapped(key: str, value: Any, dialect: Dialect, faults: Faults) -> Key | None:
    name = {"torch_dtype": "dtype"}.get(key, key)
    if key in _spellings(dialect):
        name = "rope_parameters"
    for field in dialect.fields:
        if field.key == name:
            rule = field.null or field.absent
            if value is None and isinstance(rule, Derived):
                return Key(key, value, "derived", f"→ {field.name} = {rule.how}")
            return Key(key, value, "mapped", f"→ {field.name}")
    return None


def _derived(key: str, value: Any, dialect: Dialect, faults: Faults) -> Key | None:
    fields = {name: rule for name, rule in dialect.derived().items() if key in rule.keys}
    return (
        Key(key, value, "mapped", "; ".join(f"→ {name}: {rule.how}" for name, rule in fields.items()))
        if fields
        else None
    )


def _harmless(key: str, value: Any, dialect: Dialect, faults: Faults) -> Key | None:
    return Key(key, value, "harmless", dialect.harmless[key]) if key in dialect.harmless else None


def _reads(dialect: Dialect, key: str) -> bool:
    return any(field.key == key for field in dialect.fields)


def _spellings(dialect: Dialect) -> tuple[str, ...]:
    """Every key that has to do with rotary positions."""
    return (*OBJECTS, *dialect.rope_keys, *ECHOES) if _reads(dialect, "rope_parameters") else ()


def _spelled(key: str, raw: Mapping[str, Any], dialect: Dialect) -> str:
    """The key that the file itself uses for a joined one."""
    spellings = {"rope_parameters": _spellings(dialect), "dtype": ("dtype", "torch_dtype")}.get(key, (key,))
    return next((name for name in spellings if raw.get(name) is not None), key)
