"""A table that reads the same in a terminal, a notebook and the report."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LIMIT = 40  # rows shown; the JSON beside it holds all of them
UNBREAKABLE = re.compile(r"\[\d[\d, ]*\]|[-−]?\d[\d.]*e[-+]\d+")  # a shape, or a number like 2.07e-06


@dataclass(frozen=True)
class Table:
    """Columns and rows with a title; cells are shown with `show`."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {index} of {self.title!r} has {len(row)} cells, its head {len(self.columns)}")

    def as_dict(self) -> dict[str, object]:
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [[show(cell) for cell in row] for row in self.rows],
        }

    def text(self, limit: int | None = None) -> str:
        """Aligned plain text; `limit` cuts the rows and says so."""
        cells = [[show(cell) for cell in row] for row in self.rows[:limit]]
        widths = [max(map(len, column)) for column in zip(self.columns, *cells, strict=True)]
        lines = [self.title, _line(self.columns, widths), _line(["-" * w for w in widths], widths)]
        lines += [_line(row, widths) for row in cells]
        return "\n".join([*lines, *self._cut(limit)])

    def html(self, limit: int | None = LIMIT) -> str:
        """One `<table>`; a cell that is a state word (pass, failed, …) gets that word as its class."""
        head = "".join(f"<th>{html.escape(column)}</th>" for column in self.columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in self.rows[:limit])
        cut = "".join(f"<p>{html.escape(line)}</p>" for line in self._cut(limit))
        return (
            f'<table class="mindport"><caption>{html.escape(self.title)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{cut}"
        )

    def _repr_html_(self) -> str:
        return STYLE + self.html()

    def _cut(self, limit: int | None) -> list[str]:
        hidden = len(self.rows) - limit if limit is not None else 0
        return [f"… {hidden} more rows"] if hidden > 0 else []


STATES = {"pass": "good", "verified": "good", "mapped": "good", "ok": "good", "warning": "doubt",
          "inherited": "doubt", "skipped": "doubt", "not verified": "doubt", "unknown": "bad", "refused": "bad",
          "error": "bad", "failed": "bad"}  # fmt: skip

STYLE = """<style>
table.mindport{border-collapse:collapse;margin:.4em 0 1em;font-size:.9em}
table.mindport caption{text-align:left;font-weight:600;padding:.3em 0}
table.mindport th,table.mindport td{border-bottom:1px solid #ddd;padding:.2em .7em;text-align:left!important;
vertical-align:top}
table.mindport .n{white-space:nowrap}
table.mindport td.good{color:#116329}table.mindport td.doubt{color:#7d4e00}
table.mindport td.bad{color:#a40e26;font-weight:600}
</style>"""


def show(cell: object) -> str:
    """A cell as text: floats with three significant digits, big integers with separators."""
    if hasattr(cell, "item") and getattr(cell, "ndim", None) == 0:  # a NumPy scalar
        return show(cell.item())
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.3g}"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, (list, tuple)):
        return "[" + ", ".join(str(item) for item in cell) + "]"
    return str(cell)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The same as Markdown, for a page; cells are text as they stand."""
    return "".join(f"{markdown_line(cells)}\n" for cells in (columns, ["---"] * len(columns), *rows))


def markdown_line(cells: Iterable[object]) -> str:
    """One line of such a table; neither a bar nor a line break in a cell can end it."""
    safe = (" ".join(str(cell).split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(safe)} |"


def unbroken(markup: str) -> str:
    """Escaped text in which no shape and no number can be broken at the end of a line."""
    return UNBREAKABLE.sub(lambda found: f'<span class="n">{found[0]}</span>', markup)


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cell(cell: object) -> str:
    state = STATES.get(cell) if isinstance(cell, str) else None
    attribute = f' class="{state}"' if state else ""
    return f"<td{attribute}>{unbroken(html.escape(show(cell)))}</td>"
