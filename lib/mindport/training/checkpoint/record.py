"""training.json: what a checkpoint holds, with the digest of every file and a seal over itself.

The bytes must be those that the content is written as, so that a change of any of them shows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from mindport.config.locate import is_plain
from mindport.config.write import fits
from mindport.errors import FileError, UsageError
from mindport.files import read_json
from mindport.machine import versions
from mindport.training.checkpoint.snapshot import About

NAME, FORMATS = "training.json", {False: 1, True: 2}  # 2: of a checkpoint that lies in shares
PACKAGES = ("mindport", "python", "mindspore", "numpy")  # those that compute


@dataclass(frozen=True)
class Record:
    """What training.json says.

    Attributes:
        step: steps taken.
        loss: on held-out text, nats; None where it was not measured.
        about: the rest of the training.
        files: file → {"sha256", "bytes"}, of all but this one.
        versions: of what computed.
        layout: of the processes that wrote, as `parse_layout` reads it; None for a whole checkpoint.
        arrays: array → {"dtype", "shape", "parts": file → [start, stop] of each axis}; none for a whole checkpoint.
    """

    step: int
    loss: float | None
    about: About
    files: dict[str, dict[str, Any]]
    versions: dict[str, str]
    layout: str | None = None
    arrays: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def is_sharded(self) -> bool:
        """Whether each process wrote its own share."""
        return self.layout is not None


def here() -> dict[str, str]:
    """The versions of this process, without importing any of the packages."""
    found = versions()
    return {name: found[name] for name in PACKAGES}


def as_json(about: About) -> About:
    """As it will be read again; numbers that are not finite stay what they are, unlike in `plain`.

    Raises:
        UsageError: it holds what JSON cannot.
    """
    return About(**{f.name: _json(f.name, getattr(about, f.name)) for f in dataclasses.fields(about)})


def _json(name: str, value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value  # NumPy's
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _json(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(name, item) for item in value]
    if not isinstance(value, (type(None), bool, int, float, str)):
        raise UsageError("the snapshot says what JSON cannot hold", where=name, got=f"{value!r:.80}",
                         expected="numbers, texts, lists, and objects with text for keys")  # fmt: skip
    return value


def write_record(directory: Path, record: Record) -> None:
    """Seal and write training.json."""
    content = {"format": FORMATS[record.is_sharded], **dataclasses.asdict(record)}
    if not record.is_sharded:
        del content["layout"], content["arrays"]
    (directory / NAME).write_text(_sealed(content), encoding="utf-8")


def read_record(directory: Path) -> Record:
    """Read training.json of a checkpoint.

    Raises:
        FileError: it is missing, damaged, edited, or of another version of the format.
    """
    path = directory / NAME
    if not path.is_file():
        raise FileError(f"not a checkpoint of a training: it has no {NAME}", where=directory,
                        do="name a directory step-… that a training wrote")  # fmt: skip
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") not in FORMATS.values():
        raise FileError("a checkpoint of another format", where=path, expected=" or ".join(map(str, FORMATS.values())),
                        got=value.get("format") if isinstance(value, dict) else type(value).__name__,
                        do="resume with the version of MindPort that wrote it")  # fmt: skip
    content = {name: item for name, item in value.items() if name != "seal"}
    if path.read_bytes() != _sealed(content).encode():
        raise FileError("the checkpoint was edited, or is damaged", where=path, got="bytes that do not fit their seal",
                        do="resume from an earlier checkpoint")  # fmt: skip
    return _record(path, content)


def _record(path: Path, content: dict[str, Any]) -> Record:
    is_sharded = content.pop("format") == FORMATS[True]
    try:
        record = Record(**content | {"about": About(**content["about"])})
    except (KeyError, TypeError) as error:
        raise _odd(path, error) from None
    for part in (record, record.about):
        for name, kind in get_type_hints(type(part)).items():
            if name != "about" and not fits(getattr(part, name), kind):
                raise _odd(path, f"{name} {getattr(part, name)!r:.80}")
    if not all(is_plain(file) and {"sha256", "bytes"} <= known.keys() for file, known in record.files.items()):
        raise _odd(path, "files")
    if record.is_sharded != is_sharded:
        raise _odd(path, f"layout {record.layout}")
    return record


def _odd(path: Path, got: object) -> FileError:
    return FileError("the checkpoint's record is not one of this version", where=path, got=got,
                     do="resume with the version of MindPort that wrote it")  # fmt: skip


def _sealed(content: dict[str, Any]) -> str:
    seal = hashlib.sha256(_text(content).encode()).hexdigest()
    return _text({**content, "seal": seal})


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2) + "\n"  # numbers that are not finite, too


def measured(loss: float | None) -> float | None:
    """A loss that can be compared; one that is not a number is none."""
    return float(loss) if loss is not None and math.isfinite(loss) else None
