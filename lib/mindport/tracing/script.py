"""The other end of `mindport trace FILE.py:FUNCTION`: a process of its own, in which one framework is at home.

    python -m mindport.tracing.script '{"file": "demo.py", "function": "build", "out": "trace", …}'

The function takes nothing and returns (module, inputs), or (module, inputs, loss).
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from mindport.errors import MindPortError, UsageError, first_line
from mindport.processes import run_file
from mindport.tracing import recorder
from mindport.tracing.launch import FAILED, SIDES, WRITTEN

ONLY = {"exact": "torch"}  # options that one side alone has
RETURNS = "(module, inputs), or (module, inputs, loss)"


def run(order: Mapping[str, Any]) -> None:
    """Load the file, call the function, record what it returns.

    Raises:
        UsageError: the file, the function or what it returns cannot be used; or the user's code raised.
    """
    file, seed = Path(order["file"]), order["options"]["seed"]
    with recorder.seeded(seed), _their_fault(file):
        function = _function(file, order["function"])
        framework = order["framework"] or _framework(file)
        side = importlib.import_module(SIDES[framework])
        side.seed_all(seed)
        module, inputs, loss = _checked(function(), side, order)
        options = {key: value for key, value in order["options"].items() if ONLY.get(key, framework) == framework}
        side.record(module, inputs, order["out"], loss=loss, **options)


def _function(file: Path, name: str) -> Callable[[], Any]:
    loaded = run_file(file)
    function = getattr(loaded, name, None)
    if not callable(function):
        named = [key for key, value in vars(loaded).items() if callable(value) and not key.startswith("_")]
        raise UsageError("the file has no such function", where=file, got=name, expected=", ".join(named) or None)
    return function


def _framework(file: Path) -> str:
    """The one that the file imports."""
    found = [name for name in SIDES if name in sys.modules]
    if len(found) != 1:
        raise UsageError("which framework the function is written for is not plain", where=file,
                         got=f"the file imports {' and '.join(found) or 'neither torch nor mindspore'}",
                         do="pass --framework torch or --framework mindspore")  # fmt: skip
    return found[0]


def _checked(built: Any, side: ModuleType, order: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    where = f"{order['file']}:{order['function']}"
    if not isinstance(built, tuple) or len(built) not in (2, 3):
        raise UsageError("the function does not return what is wanted", where=where, got=type(built).__name__,
                         expected=RETURNS)  # fmt: skip
    if not side.is_module(built[0]):
        kind = f"{type(built[0]).__module__}.{type(built[0]).__qualname__}"
        raise UsageError("the function returns no module of this framework", where=where, got=kind, expected=RETURNS)
    return (*built, None) if len(built) == 2 else built


@contextmanager
def _their_fault(file: Path) -> Iterator[None]:
    """What the user's code raises, with the line of the user's file that led there."""
    try:
        yield
    except MindPortError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).resolve() == file.resolve()]
        where = f"{file}:{own[-1].lineno}, in {own[-1].name}" if own else file
        raise UsageError("the code that was to be traced raised an error", where=where,
                         got=f"{type(error).__name__}: {first_line(error)}",
                         do="mend it, or run the file by itself") from error  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """The command line of the process."""
    order = json.loads((sys.argv[1:] if argv is None else argv)[0])
    try:
        run(order)
    except MindPortError as error:
        parts = {name: getattr(error, name) for name in ("what", "where", "got", "expected", "do")}
        said = {name: None if value is None else str(value) for name, value in parts.items()}
        print("\n" + FAILED + json.dumps({"kind": type(error).__name__, **said}), file=sys.stderr, flush=True)
        return 2
    print("\n" + WRITTEN, file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
