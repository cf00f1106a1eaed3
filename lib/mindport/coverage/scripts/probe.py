"""Tries the attempts of a file one by one: `python -m mindport.coverage.scripts.probe TASKS ANSWERS`.

An answer a line, written before the next task begins: if the process dies, the first task without one did it.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from mindport.claims.worker import settle
from mindport.coverage.inputs import Array
from mindport.coverage.scripts import mindspore_side
from mindport.coverage.scripts.torch_side import Truth, torch, truth

LONGEST = 160  # characters of a message
ABSENT = re.compile(
    r"module 'mindspore[\w.]*' has no attribute|'(Tensor|Parameter|StubTensor)' object has no attribute"
)
NO_KERNEL = re.compile(
    r"unregistered|Unsupported op \[|Create kernelmod for op|not supported on this device|only supports Ascend"
)


def main(tasks: str, answers: str) -> None:
    with Path(answers).open("a", encoding="utf-8") as file:
        _write(file, {"device": mindspore_side.ms.get_context("device_target")})
        for task in json.loads(Path(tasks).read_text(encoding="utf-8")):
            signal.setitimer(signal.ITIMER_REAL, task["seconds"])  # the alarm's default action ends the process
            _write(file, {"key": task["key"], **answer(task)})
            signal.setitimer(signal.ITIMER_REAL, 0)


def answer(task: dict[str, Any]) -> dict[str, Any]:
    """A name is looked up; an attempt is made and held to torch's value, then to its gradient."""
    if "name" in task:
        return {"torch": _in_torch(task["name"]), "mindspore": mindspore_side.same_named(task["name"])}
    try:
        true = truth(task["torch"])
    except Exception as error:
        return {"state": "fails", "says": f"torch itself: {_first_line(error)}"}
    found = _attempt(task, true)
    return found if found["state"] == "runs" else _attempt(task, true)  # the first may be blamed for another's error


def _attempt(task: dict[str, Any], true: Truth) -> dict[str, Any]:
    try:
        value = _difference(mindspore_side.values(task["attempt"]), true.values)
    except Exception as error:
        return _failure(error)
    if isinstance(value, str) or not value <= task["tolerance"]:
        return {"state": "wrong value", "says": _off(value)}
    return {"value": value, **_gradient(task, true)}


def _gradient(task: dict[str, Any], true: Truth) -> dict[str, Any]:
    if not true.gradients:
        return {"state": "runs"}
    try:
        found = mindspore_side.gradients(task["attempt"], list(true.gradients), true.floats)
        difference = _difference(list(found.values()), list(true.gradients.values()))
    except Exception as error:
        return {"state": "no gradient", "says": f"backward: {_failure(error)['says']}"}
    if isinstance(difference, str) or not difference <= max(1e-5, task["tolerance"]):
        return {"state": "wrong gradient", "says": _off(difference)}
    return {"state": "runs", "gradient": difference}


def _difference(ours: list[Array], theirs: list[Array]) -> float | str:
    """The largest difference, relative to the largest true value (to 1 below that); a text where the kinds differ."""
    if len(ours) != len(theirs):
        return f"{len(ours)} outputs instead of {len(theirs)}"
    distances = [0.0]
    for our, their in zip(ours, theirs, strict=True):
        if our.shape != their.shape:
            return f"shape {list(our.shape)} instead of {list(their.shape)}"
        if _kind(our) != _kind(their):
            return f"{our.dtype} instead of {their.dtype}"
        distances.append(_distance(our.astype(np.float64), their.astype(np.float64)))
    return float(np.max(distances))  # Python's max would lose a NaN


def _distance(our: Array, their: Array) -> float:
    same = (our == their) | (np.isnan(our) & np.isnan(their))
    if same.all():
        return 0.0
    finite = np.abs(their[np.isfinite(their)])
    return float(np.abs(our - their)[~same].max() / max(1.0, finite.max(initial=0.0)))  # NaN is never within a limit


def _kind(array: Array) -> str:
    return {"u": "i"}.get(array.dtype.kind, array.dtype.kind)


def _off(value: float | str) -> str:
    return value if isinstance(value, str) else f"off by {value:.1g}"


def _failure(error: Exception) -> dict[str, Any]:
    settle()  # or its error is blamed on the next one
    text = str(error)
    if isinstance(error, AttributeError) and ABSENT.search(text):
        return {"state": "absent", "says": text}
    return {"state": "no kernel" if NO_KERNEL.search(text) else "fails", "says": _first_line(error)}


def _first_line(error: Exception) -> str:
    """The line that says what is wrong: MindSpore puts rules and headings above it, and its C++ stack below."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    lines = [line for line in lines if NO_KERNEL.search(line)] or lines or [""]
    return f"{type(error).__name__}: {lines[0].split(', Please')[0]}"[:LONGEST]


def _in_torch(name: str) -> bool:
    """Whether torch has something of a full name; for a method, whether a tensor has it and a module has not."""
    place: Any = torch
    for part in name.split(".")[1:]:
        if not hasattr(place, part):
            return False
        place = getattr(place, part)
    return True


def _write(file: TextIO, value: dict[str, Any]) -> None:
    file.write(json.dumps(value) + "\n")
    file.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
