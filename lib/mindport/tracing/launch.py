"""`mindport trace`: a model or a user's module is run in a process of its own, so that the frameworks never meet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mindport import errors
from mindport.errors import BackendError, FileError, UsageError
from mindport.parity.launch import OFFLINE, run_reference
from mindport.tracing.summary import TraceSummary, summarise

SIDES = {"torch": "mindport.tracing.torch_side", "mindspore": "mindport.tracing.mindspore_side"}
FAILED = "trace-failed: "  # begins the last line of a process that failed; what follows is the error as JSON
FORM = "FILE.py:FUNCTION, or a Hugging Face directory"


def trace(
    what: str,
    out: Path | str,
    *,
    framework: str | None = None,
    seed: int = 0,
    backward: bool = True,
    dropout: bool = False,
    exact: bool = True,
    match: str | None = None,
    overwrite: bool = False,
) -> TraceSummary:
    """Trace what a function of the user's returns.

    Args:
        what: `FILE.py:FUNCTION`; the function takes nothing and returns (module, inputs), or (module, inputs, loss).
        out: the trace to write, a directory.
        framework: "torch" or "mindspore"; None for the one that the file imports.
        seed, backward, dropout, exact, match, overwrite: as for `torch_side.record`; MindSpore has no `exact`.

    Raises:
        UsageError: the function cannot be used, or raised.
        FileError: there is no such file, or `out` cannot be written.
        BackendError: the framework refuses, or the process was ended.
    """
    file, name = _split(what)
    if framework not in (None, *SIDES):
        raise UsageError("there is no such framework", got=framework, expected=", ".join(SIDES))
    options = {"seed": seed, "backward": backward, "dropout": dropout, "exact": exact, "match": match,
               "overwrite": overwrite}  # fmt: skip
    _run({"file": str(file), "function": name, "out": str(out), "framework": framework, "options": options})
    return summarise(out)


def trace_model(
    directory: Path | str, out: Path | str, *, layers: int | None = None, overwrite: bool = False,
    allow: Sequence[str] = (), padded_vocab: int | None = None,
) -> TraceSummary:  # fmt: skip
    """Trace the transformers class of a Hugging Face directory, as `mindport verify` does.

    Args:
        directory, out, layers, overwrite, allow, padded_vocab: as for `parity.run_reference`.

    Raises:
        ConfigError: the configuration cannot go across.
        BackendError: torch or transformers is missing or refuses.
    """
    return summarise(run_reference(directory, out, layers=layers, overwrite=overwrite, allow=allow,
                                   padded_vocab=padded_vocab))  # fmt: skip


def is_function(what: str) -> bool:
    """Whether a user's function is meant, and not a directory."""
    return ".py" in what and not Path(what).is_dir()


def _split(what: str) -> tuple[Path, str]:
    file, colon, name = what.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UsageError("this names no function of a file", got=what, expected=FORM)
    if not Path(file).is_file():
        raise FileError("there is no such file", where=file, expected=FORM)
    return Path(file), name


def _run(order: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "mindport.tracing.script", json.dumps(order)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env={**os.environ, **OFFLINE})  # fmt: skip
    *said, last = done.stdout.rstrip().splitlines() or [""]
    if done.returncode and last.startswith(FAILED):
        raise _their_error(last)
    print("\n".join([*said, last]).strip(), file=sys.stderr)
    if done.returncode:
        ended = f"signal {signal.Signals(-done.returncode).name}" if done.returncode < 0 else last
        raise BackendError("the process that traces was ended", where=f"{order['file']}:{order['function']}", got=ended)


def _their_error(line: str) -> errors.MindPortError:
    """The error that the other process had, as it was there."""
    parts = json.loads(line.removeprefix(FAILED))
    return getattr(errors, parts.pop("kind"))(parts.pop("what"), **parts)
