"""A function in a fresh process: its memory and its execution mode are its own, and nothing of it stays behind."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mindport.errors import BackendError
from mindport.fork_server import start
from mindport.processes import environment
from mindport.tuning.race import QUIET

IMPORTED = ("mindport.tuning.forms",)
ERROR = re.compile(r"^\w*(\.\w+)*(Error|Exception): ")
LINES = 3  # of a message


def isolated(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a module's function elsewhere; arguments and answer are JSON values.

    Raises:
        BackendError: the process failed; the end of what it said is quoted.
    """
    words = [function.__module__, function.__name__, json.dumps(arguments)]
    with tempfile.TemporaryDirectory(prefix="mindport-isolated-") as name:  # MindSpore leaves files where it fails
        folder = Path(name)
        out, said = folder / "stdout", folder / "stderr"
        with out.open("wb") as stdout, said.open("wb") as stderr:
            code = start(__name__, words, IMPORTED, environ=environment(**QUIET), folder=folder, stdout=stdout,
                         stderr=stderr).wait()  # fmt: skip
        if code:
            raise BackendError("a measuring process failed", where=function.__name__,
                               got=_reason(said.read_text(errors="replace")))  # fmt: skip
        return json.loads(out.read_text(encoding="utf-8").splitlines()[-1])


def main(words: Sequence[str]) -> None:
    """The other end: call it and print the answer as the last line."""
    module, function, arguments = words
    answer = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    print("\n" + json.dumps(answer))


def _reason(stderr: str) -> str:
    """The first lines of the error that ended it, or the last ones that it said."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    starts = [index for index, line in enumerate(lines) if ERROR.match(line)]
    return "\n".join(lines[starts[-1] :][:LINES] if starts else lines[-LINES:])


if __name__ == "__main__":
    main(sys.argv[1:])
