"""Plots of errors: logarithmic, with the limit drawn in, in colours that everybody can tell apart.

A zero has no place on a logarithmic axis and a NaN has none anywhere: both are counted on the plot in words.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
MARKERS = "osD^vP"
MOST_BARS = 40
DENSE = 64  # points; above it markers would cover the line


def error_by_position(
    series: Mapping[str, Sequence[float]], *, limit: float | None = None, title: str = "error by position"
) -> Figure:
    """Error at each position of the sequence, one line a series."""
    return lines(series, title=title, x="position in the sequence", y="max abs error", limit=limit)


def error_by_layer(
    series: Mapping[str, Sequence[float]], *, limit: float | None = None, title: str = "error by layer"
) -> Figure:
    """Error after each layer, one line a series."""
    return lines(series, title=title, x="layer", y="max abs error", limit=limit)


def lines(
    series: Mapping[str, Sequence[float]], *, title: str, x: str, y: str, log: bool = True, limit: float | None = None
) -> Figure:
    """One line a series, over 0, 1, 2, …

    Args:
        series: label to values.
        title: above the plot.
        x: what the horizontal axis counts.
        y: what the values are, with their unit.
        log: logarithmic values.
        limit: a threshold, drawn as a dashed line.
    """
    from matplotlib.ticker import MaxNLocator

    figure, axes = _start(title, y, log)
    for index, (label, values) in enumerate(series.items()):
        marker = MARKERS[index % len(MARKERS)] if len(values) <= DENSE else ""
        axes.plot(_drawable(values, log), label=label, color=PALETTE[index % len(PALETTE)], marker=marker, markersize=4)
    axes.set_xlabel(x)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(axes, series, limit, log)
    return figure


def bars(values: Mapping[str, float], *, title: str, y: str, log: bool = True, limit: float | None = None) -> Figure:
    """One horizontal bar a name, the first on top; what is over the limit is in another colour.

    Of more than forty, the forty largest are drawn, and the title says so.
    """
    if len(values) > MOST_BARS:
        title, values = f"{title} (the {MOST_BARS} largest of {len(values)})", _largest(values)
    figure, axes = _start(title, "", log, horizontal=True)
    lengths = _drawable(list(values.values()), log)
    colors = [PALETTE[1] if limit is not None and not length <= limit else PALETTE[0] for length in lengths]
    axes.barh(list(values), lengths, color=colors)
    for row, (value, length) in enumerate(zip(values.values(), lengths, strict=True)):
        if math.isnan(length):
            axes.annotate(f" {value:g}", (0, row), xycoords=axes.get_yaxis_transform(), va="center", color="#a40e26")
    axes.set_ylim(max(len(values), 1) - 0.4, -0.6)  # a bar that cannot be drawn keeps its row
    axes.set_xlabel(y)
    figure.set_figheight(max(2.2, 0.28 * len(values) + 1.1))
    _finish(axes, {y: list(values.values())}, limit, log, horizontal=True)
    return figure


def _start(title: str, y: str, log: bool, horizontal: bool = False) -> tuple[Figure, Axes]:
    from mindport.display.figure import Plot

    figure = Plot()
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_ylabel(y)
    if log:
        (axes.set_xscale if horizontal else axes.set_yscale)("log")
    axes.grid(True, axis="x" if horizontal else "y", color="#d8dee4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _finish(
    axes: Axes, series: Mapping[str, Sequence[float]], limit: float | None, log: bool, horizontal: bool = False
) -> None:
    if limit is not None:
        draw = axes.axvline if horizontal else axes.axhline
        draw(limit, color="#1b1f24", linestyle="--", linewidth=1.2, label=f"limit {limit:g}")
        if all(map(math.isnan, itertools.chain.from_iterable(_drawable(each, log) for each in series.values()))):
            around = [limit / 10, limit * 10]  # a line alone has no extent
            axes.plot(around if horizontal else [0, 0], [0, 0] if horizontal else around, alpha=0)
    if limit is not None or (len(series) > 1 and not horizontal):
        axes.legend(frameon=False, fontsize=9)
    if note := _undrawn(series.values(), log):
        axes.text(1, 1.02, note, transform=axes.transAxes, ha="right", fontsize=9, color="#a40e26")


def _largest(values: Mapping[str, float]) -> dict[str, float]:
    """The forty largest, in their old order; a NaN is larger than any number."""
    ranked = sorted(values, key=lambda name: math.inf if math.isnan(values[name]) else values[name], reverse=True)
    kept = set(ranked[:MOST_BARS])
    return {name: value for name, value in values.items() if name in kept}


def _drawable(values: Sequence[float], log: bool) -> list[float]:
    """The values with NaN where nothing can be drawn."""
    return [float(v) if math.isfinite(v) and (v > 0 or not log) else math.nan for v in values]


def _undrawn(series: Iterable[Sequence[float]], log: bool) -> str:
    """What the plot cannot show, in words."""
    values = [float(value) for each in series for value in each]
    zeros = sum(value <= 0 for value in values) if log else 0
    wild = sum(not math.isfinite(value) for value in values)
    return ", ".join([f"{zeros} exactly zero"] * bool(zeros) + [f"{wild} not finite"] * bool(wild))
