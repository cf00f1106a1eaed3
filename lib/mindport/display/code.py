"""Sources as they are in the library: what is shown is what is tested."""

from __future__ import annotations

import html
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

PRE = "margin:0;padding:.8em;overflow-x:auto;white-space:pre;font:.85em/1.45 monospace;background:#f6f8fa;color:#1b1f24"


@dataclass(frozen=True)
class Listing:
    """One or more sources beside each other."""

    titles: tuple[str, ...]
    texts: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n\n".join(f"# {title}\n{text}" for title, text in zip(self.titles, self.texts, strict=True))

    def _repr_html_(self) -> str:
        columns = "".join(map(_column, self.titles, self.texts))
        grid = f"display:grid;grid-template-columns:repeat({len(self.texts)},minmax(0,1fr));gap:1em"
        return f'<div style="{grid}">{columns}</div>'


def source(thing: object) -> Listing:
    """The source of a function or class, or a text as it is."""
    return Listing((_title(thing),), (_text(thing),))


def side_by_side(left: object, right: object, *, titles: Sequence[str] | None = None) -> Listing:
    """Two sources in two columns; each is a function, a class, or a text."""
    names = tuple(titles) if titles else (_title(left), _title(right))
    return Listing(names, (_text(left), _text(right)))


def _title(thing: object) -> str:
    if isinstance(thing, str):
        return "text"
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__name__)}"


def _text(thing: object) -> str:
    return textwrap.dedent(thing if isinstance(thing, str) else inspect.getsource(thing)).strip("\n")  # type: ignore[arg-type]


def _column(title: str, text: str) -> str:
    return f'<div><b>{html.escape(title)}</b><pre style="{PRE}">{html.escape(text)}</pre></div>'
