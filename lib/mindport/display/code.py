"""Sources as they are in the library: what is shown is what is tested."""

from __future__ import annotations

import html
import inspect
import textwrap
from dataclasses import dataclass

PRE = "margin:0;padding:.8em;overflow-x:auto;white-space:pre;font:.85em/1.45 monospace;background:#f6f8fa;color:#1b1f24"


@dataclass(frozen=True)
class Listing:
    """A source, with a heading where it has one."""

    title: str
    text: str

    def __repr__(self) -> str:
        return f"# {self.title}\n{self.text}" if self.title else self.text

    def _repr_html_(self) -> str:
        heading = f"<b>{html.escape(self.title)}</b>" if self.title else ""
        return f'<div>{heading}<pre style="{PRE}">{html.escape(self.text)}</pre></div>'


def source(thing: object, *, title: str = "") -> Listing:
    """The source of a function or class under its full name, or a text as it is.

    Args:
        thing: a function, a class, or a text.
        title: the heading; a text has none of its own.
    """
    if isinstance(thing, str):
        return Listing(title, thing.strip("\n"))
    name = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__name__)}"
    return Listing(title or name, textwrap.dedent(inspect.getsource(thing)).strip("\n"))  # type: ignore[arg-type]
