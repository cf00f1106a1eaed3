"""`mindport trace`: a model or a user's module is run in a process of its own, so that the frameworks never meet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mindport import errors
from mindport.errors import BackendError, FileError, UsageError, some
from mindport.parity.launch import OFFLINE, run_reference
from mindport.processes import ending, environment
from mindport.tracing.summary import TraceSummary, summarise

SIDES = {"torch": "mindport.tracing.torch_side", "mindspore": "mindport.tracing.mindspore_side"}
FAILED = "trace-failed: "  # begins the last line of a process that failed; what follows is the error as JSON
WRITTEN = "trace-written"  # a line of one that did its work: what ends in os._exit(0) before has left an older trace
FORM = "FILE.py:FUNCTION, or a Hugging Face directory"
# what each kind of trace can be asked, and what it does unasked
FUNCTION = {"framework": None, "seed": 0, "backward": True, "dropout": False, "exact": True, "match": None}
MODEL: dict[str, Any] = {"layers": None, "allow": (), "padded_vocab": None}


def trace(what: Path | str, out: Path | str, *, overwrite: bool = False, **options: Any) -> TraceSummary:
    """Trace what a function of the user's returns, or the transformers class of a Hugging Face directory.

    Args:
        what: `FILE.py:FUNCTION`; the function takes nothing and returns (module, inputs), or (module, inputs, loss).
            Or a directory, whose trace is the one that `mindport verify` takes.
        out: the trace to write, a directory.
        overwrite: replace a trace that is there.
        options: for a function `framework` ("torch" or "mindspore"; by default the one that the file imports), and
            `seed`, `backward`, `dropout`, `exact`, `match` as for `torch_side.record`; MindSpore has no `exact`.
            For a directory `layers`, `allow`, `padded_vocab` as for `parity.run_reference`.

    Raises:
        UsageError: the function cannot be used, or raised; an option is not for this.
        ConfigError: the configuration cannot go across.
        FileError: there is no such file, or `out` cannot be written.
        BackendError: a framework is missing or refuses, or the process was ended.
    """
    if is_function(what):
        _run(str(what), out, overwrite, _only(options, FUNCTION, "FILE.py:FUNCTION"))
    else:
        run_reference(what, out, overwrite=overwrite, **_only(options, MODEL, "a model's directory"))
    return summarise(out)


def is_function(what: Path | str) -> bool:
    """Whether a user's function is meant, and not a directory."""
    return ".py" in str(what) and not Path(what).is_dir()


def _only(options: Mapping[str, Any], known: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The options for this kind; one for the other kind may stand there unasked."""
    default = {**FUNCTION, **MODEL}
    asked = [
        name for name, value in options.items() if name not in default or (value or None) != (default[name] or None)
    ]
    if wrong := sorted(asked - known.keys()):
        raise UsageError(f"an option is not for {what}", got=some(wrong), expected=", ".join(known))
    return {**known, **{name: value for name, value in options.items() if name in known}}


def _run(what: str, out: Path | str, overwrite: bool, options: dict[str, Any]) -> None:
    file, name = _split(what)
    framework = options.pop("framework")
    if framework not in (None, *SIDES):
        raise UsageError("there is no such framework", got=framework, expected=", ".join(SIDES))
    order = {"file": str(file), "function": name, "out": str(out), "framework": framework,
             "options": {**options, "overwrite": overwrite}}  # fmt: skip
    command = [sys.executable, "-m", "mindport.tracing.script", json.dumps(order)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env=environment(**OFFLINE))  # fmt: skip
    lines = done.stdout.rstrip().splitlines()
    last = (lines or [""])[-1]
    if done.returncode and last.startswith(FAILED):
        raise _their_error(last)
    if said := "\n".join(line for line in lines if line != WRITTEN).strip():
        print(said, file=sys.stderr)
    if done.returncode or WRITTEN not in lines:
        ended = ending(done.returncode) if done.returncode < 0 else last
        raise BackendError("the process that traces was ended", where=what, got=ended or f"code {done.returncode}")


def _split(what: str) -> tuple[Path, str]:
    file, colon, name = what.rpartition(":")
    if not colon or not file.endswith(".py") or not name.isidentifier():
        raise UsageError("this names no function of a file", got=what, expected=FORM)
    if not Path(file).is_file():
        raise FileError("there is no such file", where=file, expected=FORM)
    return Path(file), name


def _their_error(line: str) -> errors.MindPortError:
    """The error that the other process had, as it was there."""
    parts: Mapping[str, Any] = json.loads(line.removeprefix(FAILED))
    kind: type[errors.MindPortError] = getattr(errors, parts["kind"])
    return kind(parts["what"], **{name: value for name, value in parts.items() if name not in ("kind", "what")})
