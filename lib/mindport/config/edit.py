"""A changed copy of a configuration, to see what stops it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from mindport.config.dialects import dialect_for
from mindport.config.locate import find_config
from mindport.files import read_json, write_json


def edited(directory: Path | str, **changes: Any) -> Path:
    """A config.json in a temporary folder: that of `directory` with some keys changed.

    Args:
        directory: where the original is; it stays as it is.
        changes: keys and values; a field of `ModelConfig` is written under the family's own key.
    """
    raw = read_json(find_config(Path(directory)))
    keys = {name: field.key for field in dialect_for(raw["model_type"]).fields for name in field.name.split()}
    path = Path(tempfile.mkdtemp(prefix="mindport-edited-")) / "config.json"
    return write_json(path, {**raw, **{keys.get(name, name): value for name, value in changes.items()}})
