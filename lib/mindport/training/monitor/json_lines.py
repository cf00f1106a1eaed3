"""Events as lines of JSON: one whole object a line, with its kind under "event".

    {"event": "step", "step": 12, "loss": 3.91, …}
    {"event": "alarm", "step": 12, "name": "not finite", …}

JSON has no NaN and no infinity: they are written as the texts "nan", "inf" and "-inf", and read back as numbers.
A line goes to the file in one write, so a process that is killed leaves whole lines, at worst with a torn one at the
end, which is left out in reading and cut off before anything is added.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mindport.errors import FileError
from mindport.files import atomic_file
from mindport.results import plain
from mindport.training.monitor.events import Alarm, Evaluation, Event, Pace, Sample
from mindport.training.step_record import StepRecord

KINDS: dict[str, type] = {
    "step": StepRecord, "evaluation": Evaluation, "sample": Sample, "pace": Pace, "alarm": Alarm,
}  # fmt: skip
NAMES = {kind: name for name, kind in KINDS.items()}
TYPES = {kind: {field.name: str(field.type) for field in dataclasses.fields(kind)} for kind in NAMES}
PLAIN = {"int": int, "str": str, "bool": bool}
DO = "move it aside; a run that is resumed begins another one"


class JsonLines:
    """The sink.

    Args:
        path: the file; its directory is made.
        step: the step that the training goes on after. What an earlier process wrote of later ones is cut off, so that
            no step is there twice; 0 begins the file anew.

    Raises:
        FileError: the file there is damaged, or it cannot be written.
    """

    def __init__(self, path: Path, step: int = 0) -> None:
        self.path = Path(path)
        _cut(self.path, step)
        self._descriptor = _open(self.path)

    def take(self, event: Event) -> None:
        """Append one line.

        Raises:
            FileError: the disk refuses.
        """
        try:
            _write(self._descriptor, _line(event))
        except OSError as error:
            raise FileError("the line cannot be written", where=self.path, got=error) from None

    def close(self) -> None:
        """Wait until all lines are on the disk."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)


def read_metrics(path: Path) -> list[Event]:
    """The events of a run, in order; a torn last line is left out.

    Raises:
        FileError: the file is missing, or another line is no event.
    """
    return [event for _, event in _lines(Path(path))]


def _cut(path: Path, step: int) -> None:
    kept = [line for line, event in _lines(path) if event.step <= step] if step and path.exists() else []
    with atomic_file(path) as aside:
        aside.write_bytes(b"".join(kept))


def _lines(path: Path) -> Iterator[tuple[bytes, Event]]:
    """Each line, whole and with its end, and its event."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if (event := _event(line, f"{path}, line {number}")) is not None:
                    yield line.rstrip(b"\n") + b"\n", event
    except OSError as error:
        raise FileError("the metrics cannot be read", where=path, got=error) from None


def _event(line: bytes, where: str) -> Event | None:
    """The event of a line; None of a torn one, which only the last can be, for it has no end."""
    try:
        fields = json.loads(line)
        return event_of(KINDS[fields.pop("event")], fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        if not line.endswith(b"\n"):
            return None
        raise FileError("a line of the metrics is no event", where=where, got=line[:80], do=DO) from None


def event_of(kind: type, fields: dict[str, Any]) -> Any:
    """The event of this kind out of JSON, as `plain` made it.

    Raises:
        ValueError, TypeError: it is none.
    """
    return kind(**{name: _value(kind, name, value) for name, value in fields.items()})


def _value(kind: type, name: str, value: Any) -> Any:
    """A value as the field has it: JSON knows neither tuples nor NaN, and cannot tell 3.0 from 3 everywhere.

    Raises:
        ValueError, TypeError: it is none for the field.
    """
    wanted = TYPES[kind][name]
    if value is None and wanted.endswith("None"):
        return None
    if wanted.startswith("float"):
        return float(value)
    if type(value) is not PLAIN.get(wanted, type(value)):
        raise TypeError
    return tuple(value) if isinstance(value, list) else value


def _line(event: Event) -> bytes:
    text = json.dumps({"event": NAMES[type(event)], **plain(event)}, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND)
    except OSError as error:
        raise FileError("the metrics cannot be written", where=path, got=error) from None


def _write(descriptor: int, line: bytes) -> None:
    while line:  # a full disk takes a part of it first
        line = line[os.write(descriptor, line) :]
