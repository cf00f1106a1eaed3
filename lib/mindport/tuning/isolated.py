"""A function in a fresh process: its memory and its execution mode are its own, and nothing of it stays behind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from mindport.errors import BackendError
from mindport.processes import environment
from mindport.tuning.race import QUIET

CODE = "import sys; from mindport.tuning.isolated import serve; serve(*sys.argv[1:])"
ERROR = re.compile(r"^\w*(\.\w+)*(Error|Exception): ")
LINES = 3  # of a message


def isolated(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a module's function elsewhere; arguments and answer are JSON values.

    Raises:
        BackendError: the process failed; the end of what it said is quoted.
    """
    command = [sys.executable, "-c", CODE, function.__module__, function.__name__, json.dumps(arguments)]
    with tempfile.TemporaryDirectory(prefix="mindport-isolated-") as folder:  # MindSpore leaves files where it fails
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", cwd=folder, env=environment(**QUIET)
        )
    if done.returncode:
        raise BackendError("a measuring process failed", where=function.__name__, got=_reason(done.stderr))
    return json.loads(done.stdout.splitlines()[-1])


def serve(module: str, function: str, arguments: str) -> None:
    """The other end: call it and print the answer as the last line."""
    import importlib

    answer = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    print("\n" + json.dumps(answer))


def _reason(stderr: str) -> str:
    """The first lines of the error that ended it, or the last ones that it said."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    starts = [index for index, line in enumerate(lines) if ERROR.match(line)]
    return "\n".join(lines[starts[-1] :][:LINES] if starts else lines[-LINES:])
