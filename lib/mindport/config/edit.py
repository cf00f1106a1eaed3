"""A changed copy of a configuration, to see what stops it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from mindport.config.dialects import dialect_for
from mindport.config.locate import find_config
from mindport.errors import ConfigError
from mindport.files import read_json, write_json


def edited(directory: Path | str, **changes: Any) -> Path:
    """A config.json in a temporary folder: that of `directory` with some keys changed.

    Args:
        directory: where the original is; it stays as it is.
        changes: keys and values; a field of `ModelConfig` is written under the family's own key.

    Raises:
        ConfigError: the original is of no supported family.
    """
    file = find_config(Path(directory))
    raw = read_json(file)
    if not isinstance(raw, dict):
        raise ConfigError("config.json must hold one object", where=file, got=type(raw).__name__)
    dialect = dialect_for(raw.get("model_type"), f"{file}: model_type")
    keys = {name: field.key for field in dialect.fields for name in field.name.split()}
    path = Path(tempfile.mkdtemp(prefix="mindport-edited-")) / "config.json"
    return write_json(path, {**raw, **{keys.get(name, name): value for name, value in changes.items()}})
