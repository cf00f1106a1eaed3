"""Operators that a live torch module calls, seen in a process of its own."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from mindport.coverage import child
from mindport.coverage.usage import Usage
from mindport.errors import BackendError, UsageError

SCRIPT = "mindport.coverage.scripts.live"
HOW = "name a module class that needs no arguments, or a function that returns a module or (module, inputs)"


def is_live(target: str) -> bool:
    """Whether a target is `package.module:Name` or `file.py:Name`, and not a path."""
    place, colon, name = target.rpartition(":")
    return bool(colon and place) and name.isidentifier() and not Path(target).exists()


def trace(target: str, timeout: float) -> Usage:
    """The layers of a module and, if there are inputs, the functions that it calls.

    Args:
        target: `package.module:Name`, or `file.py:Name`.
        timeout: seconds, for the import and the call together.

    Raises:
        UsageError: there is no such thing, or it makes no module.
        BackendError: importing or running it raised, ended the process, or took too long.
    """
    place, _, name = target.rpartition(":")
    with tempfile.TemporaryDirectory(prefix="mindport-coverage-") as folder:
        out = Path(folder, "answer")
        ended = child.run(SCRIPT, place, name, str(out), timeout=timeout)
        answer = json.loads(out.read_text(encoding="utf-8")) if ended.code == 0 and out.is_file() else None
    if answer is None:
        do = f"give it more time: --timeout (now {timeout:g} s)" if ended.code is None else "run its module by itself"
        raise BackendError("the module could not be looked at", where=target, got=ended.reason(), do=do)
    if "usage" in answer:
        raise UsageError(answer["usage"], where=target, got=answer["got"], expected=HOW)
    if "raised" in answer:
        raise BackendError("the module's own code stopped it", where=target, got=answer["raised"], do="mend it first")
    notes = () if answer["called"] else ("no inputs: only its layers were looked at; " + HOW,)
    return Usage(tuple((use, where) for use, where in answer["uses"]), 0, (), notes)
