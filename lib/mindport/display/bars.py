"""Bars for figures that have names: one below the other, in the order given, with peers as lines across them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mindport.display.plots import PALETTE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOM = 1.16  # of the longest bar, so that the number behind it fits


def bars(values: Mapping[str, float], *, title: str, x: str, marks: Mapping[str, float] | None = None) -> Figure:
    """One horizontal bar a value, the first on top, each with its number.

    Args:
        values: label to value.
        title: above the plot.
        x: what the values are, with their unit.
        marks: label to a value that is drawn across all bars (a peer, a limit).
    """
    from mindport.display.figure import Plot

    figure = Plot()
    axes = figure.subplots()
    drawn = axes.barh(list(values), list(values.values()), color=PALETTE[0], height=0.62)
    axes.bar_label(drawn, [f"{value:.3g}" for value in values.values()], padding=4, fontsize=9)
    for index, (label, value) in enumerate((marks or {}).items(), 1):
        axes.axvline(value, color=PALETTE[index % len(PALETTE)], linestyle="--", linewidth=1.4,
                     label=f"{label}: {value:.3g}")  # fmt: skip
    if marks:
        axes.legend(frameon=False, fontsize=9, loc="lower right")
    axes.invert_yaxis()  # the first on top
    axes.set_xlim(0, ROOM * max([*values.values(), *(marks or {}).values()], default=1.0))
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(x)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
