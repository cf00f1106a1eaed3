"""Plots of errors: logarithmic, with their limits drawn in, in colours that everybody can tell apart.

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

    from mindport.parity.curves import CurveReport
    from mindport.parity.rows import Row
    from mindport.parity.steps import StepsReport

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
MARKERS = "osD^vP"
DENSE = 64  # points; above it markers would cover the line
RELATIVE = "error ÷ largest value"


def error_by_layer(layers: Sequence[Row]) -> Figure:
    """The error after each layer, alone and in the whole model, each with the limits that it is held to.

    Args:
        layers: the rows of whole layers, as `Comparison.layers()` gives them.
    """
    whole = [math.nan if row.whole_limit is None else row.whole_limit for row in layers]
    series = {
        "whole model": [row.whole for row in layers],
        "alone": [row.relative for row in layers],
        "torch itself, alone": [row.own for row in layers],
    }
    limits = {"whole model": whole, "alone": [row.limit for row in layers]}
    return lines(series, limits=limits, title="error after each layer", x="layer", y=RELATIVE)


def error_by_position(rows: Mapping[str, Row]) -> Figure:
    """The error at each position of the sequence, with the limit of the whole row.

    Args:
        rows: label to a row that has `positions`.
    """
    series = {label: row.positions for label, row in rows.items()}
    limits = {label: [_allowed(row)] * len(row.positions) for label, row in rows.items()}
    return lines(series, limits=limits, title="error by position", x="position in the sequence", y=RELATIVE)


def lines(
    series: Mapping[str, Sequence[float]],
    *,
    title: str,
    x: str,
    y: str,
    log: bool = True,
    limits: Mapping[str, Sequence[float]] | None = None,
    first: int = 0,
) -> Figure:
    """One line a series, over 0, 1, 2, … or from `first` on.

    Args:
        series: label to values.
        title: above the plot.
        x: what the horizontal axis counts.
        y: what the values are, with their unit.
        log: logarithmic values.
        limits: label to what is allowed at each value; dashed, in the colour of the series of that label, or in one
            black line when all are the same.
        first: place of the first value on the horizontal axis.
    """
    figure, axes = _start(title, x, y, log)
    _draw(axes, series, limits or {}, log, first)
    return figure


def training_curves(trained: StepsReport) -> Figure:
    """The losses of both trainings, one over the other, and below them how far apart they are.

    Args:
        trained: what `verify(…, steps=N).training` says.
    """
    course = trained.course("loss")
    losses = {"torch": [row.reference for row in course], "ours": [row.ours for row in course]}
    apart = {
        "ours from torch": [row.error for row in course],
        "torch from float64, so far": [row.own for row in course],
    }
    return _two_courses(losses, apart, [row.limit for row in course])


def curves_beside_torch(report: CurveReport) -> Figure:
    """The losses of a training and of the same one in torch, and below them how far apart they are.

    Args:
        report: what `mindport train CONFIG --beside-torch` found.
    """
    course = report.course("loss")
    exact = {"torch from float64": course.own, "ours from float64": course.mine} if course.own else {}
    apart = {"ours from torch": course.errors, **exact}
    return _two_courses({"torch": course.reference, "ours": course.ours}, apart, course.limits)


def _two_courses(
    losses: Mapping[str, Sequence[float]], apart: Mapping[str, Sequence[float]], limits: Sequence[float]
) -> Figure:
    from mindport.display.figure import Plot

    figure = Plot()
    figure.set_size_inches(7.5, 5.4)
    above, below = figure.subplots(2, sharex=True)
    dress(above, "loss at each step", "", "loss in nats", log=False)
    _draw(above, losses, {}, log=False, first=1)
    above.lines[1].set(linestyle=":", linewidth=3, marker="")  # both are seen where they lie on each other
    _legend(above)
    dress(below, "difference of the losses", "step", "nats", log=True)
    _draw(below, apart, {"ours from torch": limits}, log=True, first=1)
    return figure


def _draw(
    axes: Axes, series: Mapping[str, Sequence[float]], limits: Mapping[str, Sequence[float]], log: bool, first: int = 0
) -> None:
    allowed = {limit for values in limits.values() for limit in values if math.isfinite(limit)}
    for index, (label, values) in enumerate(series.items()):
        color = PALETTE[index % len(PALETTE)]
        marker = MARKERS[index % len(MARKERS)] if len(values) <= DENSE else ""
        at = range(first, first + len(values))
        axes.plot(at, _drawable(values, log), label=label, color=color, marker=marker, markersize=4)
        if label in limits and len(allowed) > 1:
            dash = "_" if len(values) == 1 else ""  # a line needs two points
            line = _drawable(limits[label], log)
            axes.plot(at, line, label=f"limit: {label}", color=color, linestyle="--", marker=dash)
    if len(allowed) == 1:
        (limit,) = allowed
        axes.axhline(limit, color="#1b1f24", linestyle="--", linewidth=1.2, label=f"limit {limit:g}")
    if len(axes.lines) > 1:
        _legend(axes)
    if note := _undrawn(itertools.chain(series.values(), limits.values()), log):
        axes.text(1, 1.02, note, transform=axes.transAxes, ha="right", fontsize=9, color="#57606a")


def _legend(axes: Axes) -> None:
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))  # no line is covered


def _start(title: str, x: str, y: str, log: bool) -> tuple[Figure, Axes]:
    from mindport.display.figure import Plot

    figure = Plot()
    axes = figure.subplots()
    dress(axes, title, x, y, log)
    return figure, axes


def dress(axes: Axes, title: str, x: str, y: str, log: bool) -> None:
    """Title, labels, grid and scale as all plots have them."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set(xlabel=x, ylabel=y)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if log:
        axes.set_yscale("log")
    axes.grid(True, axis="y", color="#d8dee4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _allowed(row: Row) -> float:
    """The limit of `row.positions`: of the faulty cell alone, or of the value in the whole model."""
    return row.limit if row.state == "failed" or row.whole_limit is None else row.whole_limit


def _drawable(values: Sequence[float], log: bool) -> list[float]:
    """The values with NaN where nothing can be drawn."""
    return [float(v) if math.isfinite(v) and (v > 0 or not log) else math.nan for v in values]


def _undrawn(series: Iterable[Sequence[float]], log: bool) -> str:
    """What the plot cannot show, in words."""
    values = [float(value) for each in series for value in each]
    zeros = sum(value <= 0 for value in values) if log else 0
    wild = sum(not math.isfinite(value) for value in values)
    return ", ".join([f"{zeros} exactly zero"] * bool(zeros) + [f"{wild} not finite"] * bool(wild))
