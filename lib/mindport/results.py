"""What a step answers: a verdict, its figures, and the properties it showed.

Every public check returns a frozen dataclass that inherits `Result`. The command line prints it, a notebook
shows it, `report.py` writes it; none of them knows more than this page.
"""

from __future__ import annotations

import dataclasses
import html
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mindport.tables import STYLE, Table

State = Literal["verified", "failed", "skipped", "not verified"]


@dataclass(frozen=True)
class Property:
    """One line of the report card.

    Attributes:
        name: the promise, in a short sentence ("HF → MindSpore → HF is equal byte for byte").
        state: verified here, failed, skipped (why is in `how`), or not verified.
        how: the way it was shown, or the reason why it was not.
        figure: the measured value, with its limit ("4.1e-06 (limit 1e-05)").
        backend: where it ran: "CPU", "none" (numbers only), "Ascend".
    """

    name: str
    state: State
    how: str
    figure: str = ""
    backend: str = "none"


class Result:
    """Base of every result; a subclass is a frozen dataclass and defines `ok`, `headline` and `tables`."""

    @property
    def ok(self) -> bool:
        """The verdict."""
        raise TypeError(f"{type(self).__name__} has no verdict")

    @property
    def exit_code(self) -> int:
        """Of a command that answers with it: 0 yes, 1 no."""
        return 0 if self.ok else 1

    def headline(self) -> str:
        """The answer in one sentence."""
        raise TypeError(f"{type(self).__name__} has no headline")

    def tables(self) -> tuple[Table, ...]:
        """The evidence, most telling first."""
        return ()

    def properties(self) -> tuple[Property, ...]:
        """The lines that this result adds to the report card."""
        return ()

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON values: `ok`, `headline`, and each field."""
        assert dataclasses.is_dataclass(self)
        fields = {field.name: plain(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return {"ok": self.ok, "headline": self.headline(), **fields}

    def text(self, limit: int | None = None) -> str:
        """Headline and tables for a terminal."""
        return "\n\n".join([self.headline(), *(table.text(limit) for table in self.tables())])

    def _repr_html_(self) -> str:
        mark = "✓" if self.ok else "✗"
        headline = html.escape(self.headline())
        return STYLE + f"<p><b>{mark} {headline}</b></p>" + "".join(t.html() for t in self.tables())


def verdict(name: str, ok: bool, how: str, figure: str = "", backend: str = "none") -> Property:
    """A property that was tried: verified or failed."""
    return Property(name, "verified" if ok else "failed", how, figure, backend)


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: dataclasses to dicts, paths to text, NaN and infinities to text."""
    if isinstance(value, Result):
        return value.as_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [plain(item) for item in sorted(value, key=str)]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # a NumPy array or scalar
        return plain(value.tolist())
    return value
