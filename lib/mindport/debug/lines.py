"""Watching Python execute: every statement of chosen functions, with the names before and after it.

In PyNative mode a cell's `construct` is ordinary Python, so the interpreter's own trace function can look at it. A
debugger uses the same function; it gets it back afterwards.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

INHERITED = "mindspore/nn/cell.py"


@dataclass(frozen=True)
class Executed:
    """One statement that ran.

    Attributes:
        node: its syntax.
        code: its text, on one line.
        file, number: where it stands.
        before, after: the local names.
        result: what was returned, when it returned something.
        names: the global names.
    """

    node: ast.stmt
    code: str
    file: str
    number: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    result: Any
    names: dict[str, Any]

    def made(self) -> dict[str, Any]:
        """What it bound anew; an array that was changed in place is not seen."""
        new = {n: v for n, v in self.after.items() if n not in self.before or self.before[n] is not v}
        return new | ({"(returned)": self.result} if self.result is not None else {})


class Lines:
    """`with Lines(wanted, see): …` calls `see(executed)` after every statement in the frames that are wanted."""

    def __init__(self, wanted: Callable[[FrameType], bool], see: Callable[[Executed], None]) -> None:
        self._wanted, self._see = wanted, see

    def __enter__(self) -> None:
        self._previous = sys.gettrace()
        sys.settrace(self._begin)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        sys.settrace(self._previous)

    def _begin(self, frame: FrameType, event: str, _arg: Any) -> Any:
        if not self._wanted(frame) or not _statements(frame.f_code):
            return None
        return _Frame(self._see).step


class _Frame:
    """One call of a function: remembers the statement that is being executed."""

    def __init__(self, see: Callable[[Executed], None]) -> None:
        self._see = see
        self._node: ast.stmt | None = None
        self._before: dict[str, Any] = {}
        self._raised = False

    def step(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._raised = event == "exception" or (self._raised and event == "return")
        node = _statements(frame.f_code).get(frame.f_lineno)
        if event == "exception" or (event == "line" and node is self._node):  # the next line of the same statement
            return self.step
        if self._node is not None and not self._raised:
            self._see(self._executed(frame, arg if event == "return" else None))
        self._node, self._before = node, dict(frame.f_locals)
        return self.step

    def _executed(self, frame: FrameType, result: Any) -> Executed:
        assert self._node is not None
        return Executed(
            node=self._node, code=" ".join(head(self._node).split()), file=frame.f_code.co_filename,
            number=frame.f_code.co_firstlineno + self._node.lineno - 1, before=self._before,
            after=dict(frame.f_locals), result=result, names=frame.f_globals,
        )  # fmt: skip


def head(node: ast.stmt) -> str:
    """A statement as text; of one with a body only what stands before the colon."""
    text = ast.unparse(node)
    return text.splitlines()[0] if hasattr(node, "body") else text


def methods_of(cells: Mapping[int, Any]) -> Callable[[FrameType], bool]:
    """Frames of a cell's own methods, for the cells given by id; what every cell inherits is left out."""
    return lambda frame: id(frame.f_locals.get("self")) in cells and not frame.f_code.co_filename.endswith(INHERITED)


@functools.lru_cache(maxsize=256)
def _statements(code: CodeType) -> dict[int, ast.stmt]:
    """Line of a file → the innermost statement there; empty where there is no source, and for comprehensions."""
    if code.co_name.startswith("<"):
        return {}
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return {}
    function = tree.body[0]
    found: dict[int, ast.stmt] = {}
    for node in ast.walk(function):  # from outside in, so that the innermost one stays
        if isinstance(node, ast.stmt) and node is not function:
            found |= {first + line - 1: node for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return found
