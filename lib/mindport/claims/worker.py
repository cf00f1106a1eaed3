"""A process that runs checks: a JSON request a line on stdin, a JSON answer a line on stdout.

    {"name": "C024", "source": "…", "set_up": "block", "set_up_source": "…"}
    → {"seen": {"4-D works": true}, "device": "CPU"}

A check that raises answers {"error": "TypeError: …"}. The process ends with its stdin; it runs in a folder of its own.
"""

from __future__ import annotations

import json
import sys
import traceback
import types
from typing import Any

from mindport.claims.snippet import answer, run_snippet
from mindport.errors import first_line
from mindport.processes import own_stdout

LONGEST = 160  # characters of a message
ECHOES = 20  # operations; five were seen to raise the error of an earlier one


def main() -> int:
    """Answer until stdin ends."""
    answers = own_stdout()
    set_ups: dict[str, types.ModuleType] = {}
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line), set_ups)), file=answers, flush=True)
    return 0


def _answer(request: dict[str, str], set_ups: dict[str, types.ModuleType]) -> dict[str, Any]:
    try:
        module = run_snippet(request["name"], request["source"], _given(request, set_ups))
        return {"seen": answer(module), "device": _device()}
    except BaseException as error:  # a check may even call sys.exit
        traceback.print_exc()
        return {"error": one_line(error)}
    finally:
        settle()


def one_line(error: BaseException) -> str:
    """The kind of an error and the first line of what it says."""
    return f"{type(error).__name__}: {first_line(error) or 'no message'}"[:LONGEST]


def _given(request: dict[str, str], set_ups: dict[str, types.ModuleType]) -> dict[str, object]:
    """The names that the set-up of this check made; it runs once."""
    name = request["set_up"]
    if not name:
        return {}
    if name not in set_ups:
        set_ups[name] = run_snippet(f"set_up_{name}", request["set_up_source"])
    return {key: value for key, value in vars(set_ups[name]).items() if not key.startswith("__")}


def _device() -> str:
    """What MindSpore computes on; nothing where no check has needed it."""
    mindspore = sys.modules.get("mindspore")
    return "" if mindspore is None else str(mindspore.get_context("device_target"))


def settle() -> None:
    """Leave PyNative mode to what comes next, and no error: MindSpore raises one again at several later operations."""
    if (mindspore := sys.modules.get("mindspore")) is None:
        return
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    for _ in range(ECHOES):
        try:
            (mindspore.Tensor([1.0]) + 1.0).asnumpy()
            return
        except Exception:
            continue


if __name__ == "__main__":
    sys.exit(main())
