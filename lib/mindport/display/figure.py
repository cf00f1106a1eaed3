"""A matplotlib figure that shows itself once: pyplot never hears of it, so nothing is drawn twice or left open."""

from __future__ import annotations

import io
from typing import Any

from matplotlib.figure import Figure

DPI = 100


class Plot(Figure):
    """A figure for a notebook cell and for `report.write`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(figsize=(7.5, 3.6), dpi=DPI, layout="constrained", **options)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()
