"""Python's own debugger with its commands written down beforehand, so that a notebook shows what a session is like.

At the keyboard the same session is `breakpoint()` in `construct`, or a red dot in VS Code.
"""

from __future__ import annotations

import inspect
import io
import pdb
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mindport.results import Result

FOLDER = re.compile(r"^> \S*/", re.MULTILINE)


@dataclass(frozen=True)
class Transcript(Result):
    """What was typed and what the debugger said.

    Attributes:
        session: the whole of it.
        stopped: whether the breakpoint was reached.
    """

    session: str
    stopped: bool

    @property
    def ok(self) -> bool:
        return self.stopped

    def headline(self) -> str:
        return "stopped in construct" if self.stopped else "the breakpoint was never reached"

    def __repr__(self) -> str:
        return self.session

    def _repr_html_(self) -> None:
        """A session is plain text everywhere."""


Plain: Any = next(kind for kind in pdb.Pdb.__mro__ if kind.__module__ == "pdb")  # a kernel puts its own in front


class Scripted(Plain):  # type: ignore[misc]
    """A debugger that takes its commands from a list, and shows them."""

    def __init__(self, commands: Sequence[str], output: io.StringIO) -> None:
        super().__init__(stdin=io.StringIO("\n".join(commands) + "\n"), stdout=output, nosigint=True, readrc=False)
        self.use_rawinput = False

    def precmd(self, line: str) -> str:
        self.message(line)
        return str(super().precmd(line))


def session(run: Callable[[], Any], stop_in: Callable[..., Any], commands: Sequence[str]) -> Transcript:
    """Run something under the debugger, which stops once at the first line of a function.

    Args:
        run: what is run.
        stop_in: the function or method to stop in (`cell.construct`).
        commands: what would be typed there; then the program goes on to its end.
    """
    output = io.StringIO()
    debugger = Scripted(["continue", *commands, "continue"], output)
    code = inspect.unwrap(stop_in).__code__
    debugger.set_break(code.co_filename, _first_line(code), temporary=True)
    debugger.runcall(run)
    return Transcript(_tidy(output.getvalue()), f"){code.co_name}()" in output.getvalue())


def _first_line(code: Any) -> int:
    """The first line of a function's body: breakpoints on `def` itself are met when it is defined."""
    lines = sorted({line for _, _, line in code.co_lines() if line})
    return lines[1] if len(lines) > 1 else lines[0]


def _tidy(text: str) -> str:
    """From the first command on, without the folders of files and what became of the breakpoint."""
    session = text.replace("(Pdb) ", "\n(Pdb) ")
    lines = FOLDER.sub("> ", session[session.find("(Pdb)") :]).splitlines()
    return "\n".join(line for line in lines if not line.startswith("Deleted breakpoint")).strip()
