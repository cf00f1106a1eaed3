"""The planner's figures: scaling, memory, time; all of them estimates, and their titles say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mindport.display.plots import MARKERS, PALETTE, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mindport.parallel.plan import Candidate
    from mindport.parallel.plan.curves import Scaled

COLORS = (*PALETTE, "#F0E442", "#999999")  # Okabe and Ito, and a grey: no plan has more parts
LIMIT = "#a40e26"
GB = 1e9
Points = Sequence[tuple[int, Mapping[str, float]]]  # tokens of a sample, bytes by part


def plot_scaling(curves: Mapping[str, Sequence[Scaled]]) -> Figure:
    """Tokens a second of all cards with the ideal line, and what is left of a card's speed.

    Args:
        curves: label ("strong", "weak") to what `scaling(job)` or `scaling(job, weak=True)` gives.
    """
    from mindport.display.figure import Plot

    figure = Plot()
    figure.set_size_inches(9, 3.8)
    rates, shares = figure.subplots(1, 2)
    for index, (label, points) in enumerate(curves.items()):
        fit = [point for point in points if point.layout is not None]
        cards, style = [p.devices for p in fit], {"color": PALETTE[index], "marker": MARKERS[index], "markersize": 4}
        rates.plot(cards, [p.tokens_per_second for p in fit], label=label, **style)
        shares.plot(cards, [p.efficiency for p in fit], label=label, **style)
    first = next((p for points in curves.values() for p in points if p.layout is not None), None)
    every = sorted({p.devices for points in curves.values() for p in points})
    if first is not None:
        ideal = [first.tokens_per_second * cards / first.devices for cards in every]
        rates.plot(every, ideal, color="#57606a", linestyle="--", linewidth=1, label="ideal")
    dress(rates, "throughput of all cards (estimated)", "cards", "tokens/s", log=True)
    dress(shares, "efficiency (estimated)", "cards", "of a card's speed at first", log=False)
    shares.axhline(1.0, color="#57606a", linestyle="--", linewidth=1)
    shares.set_ylim(0, 1.05 * max(1.05, *(p.efficiency for points in curves.values() for p in points)))
    for axes in (rates, shares):
        _powers(axes, every)
    _say_unfit(rates, curves)
    rates.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


def plot_memory(points: Mapping[str, Points], *, limit: float) -> Figure:
    """Memory of the fullest card against the sequence, stacked by part; a panel for each label.

    Args:
        points: label ("none", "selective", "full" recomputation) to what `memory_by_sequence` gives.
        limit: bytes that a card offers.
    """
    from mindport.display.figure import Plot

    figure = Plot()
    figure.set_size_inches(3.0 * len(points) + 2.6, 3.8)
    panels = figure.subplots(1, len(points), sharey=True, squeeze=False, gridspec_kw={"wspace": 0.1})[0]
    names = _names(parts for rows in points.values() for _, parts in rows)
    for axes, (label, rows) in zip(panels, points.items(), strict=True):
        lengths = [length for length, _ in rows]
        stacks = [[parts[name] / GB for _, parts in rows] for name in names]
        axes.stackplot(lengths, stacks, labels=names, colors=_colors(names), edgecolor="white", linewidth=0.4)
        dress(axes, label, "tokens of a sample", "", log=False)
        axes.axhline(limit / GB, color=LIMIT, linestyle="--", linewidth=1.4, label=f"the card's {limit / GB:.0f} GB")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(_thousands)
        axes.set_xlim(min(lengths), max(lengths))
    panels[0].set_ylabel("GB a card (estimated)")
    _legend(panels[-1])
    return figure


def plot_zero(parameters: int, cards: Sequence[int] = (2, 8, 64), *, limit: float | None = None) -> Figure:
    """Weights, gradients and optimizer states on a card, ZeRO-0 to ZeRO-3, for several numbers of replicas.

    Args:
        parameters: of the model.
        cards: how many share out.
        limit: bytes that a card offers.
    """
    from mindport.display.figure import Plot
    from mindport.parallel.plan import zero_memory

    figure = Plot()
    axes = figure.subplots()
    bars = {(count, stage): parts for count in cards for stage, parts in enumerate(zero_memory(parameters, count))}
    places = [place + place // 4 for place in range(len(bars))]  # a gap between numbers of cards
    _stack(axes, places, list(bars.values()), GB, horizontal=False)
    dress(axes, f"states of {parameters / 1e9:.3g} billion parameters (estimated)", "", "GB a card", log=False)
    axes.set_xticks(places, [str(stage) for _, stage in bars])
    for index, count in enumerate(cards):
        axes.text(5 * index + 1.5, -0.16, f"ZeRO over {count} cards", transform=axes.get_xaxis_transform(), ha="center")
    if limit is not None:
        axes.axhline(limit / GB, color=LIMIT, linestyle="--", linewidth=1.4, label=f"the card's {limit / GB:.0f} GB")
    _legend(axes)
    return figure


def plot_time(candidates: Sequence[Candidate]) -> Figure:
    """Where a step's time goes: its share by part, a bar a layout.

    Args:
        candidates: such as `plan(job).ranked[:6]`.
    """
    shares = [{name: value / c.seconds for name, value in c.time.items()} for c in candidates]
    figure, axes = _rows(candidates)
    _stack(axes, range(len(shares)), shares, 0.01)
    axes.set_xlim(0, 100)
    for place, candidate in enumerate(candidates):
        axes.text(101, place, f"{candidate.seconds:.3g} s", va="center", fontsize=8, color="#57606a")
    _finish(axes, candidates, "where a step's time goes (estimated)", "% of a step", 1.1)
    return figure


def plot_fit(candidates: Sequence[Candidate]) -> Figure:
    """Memory of the fullest card by part beside what a card offers, a bar a layout.

    Args:
        candidates: such as `plan(job).ranked[:6]`.
    """
    figure, axes = _rows(candidates)
    _stack(axes, range(len(candidates)), [c.memory for c in candidates], GB)
    limit = candidates[0].limit / GB
    axes.axvline(limit, color=LIMIT, linestyle="--", linewidth=1.4, label=f"the card's {limit:.0f} GB")
    axes.set_xlim(0, 1.08 * max(limit, *(c.needed / GB for c in candidates)))
    _finish(axes, candidates, "memory of the fullest card (estimated)", "GB", 1.0)
    return figure


def _rows(candidates: Sequence[Candidate]) -> tuple[Figure, Axes]:
    from mindport.display.figure import Plot

    figure = Plot()
    figure.set_size_inches(9, 1.7 + 0.34 * len(candidates))
    return figure, figure.subplots()


def _finish(axes: Axes, candidates: Sequence[Candidate], title: str, x: str, right: float) -> None:
    axes.set_yticks(range(len(candidates)), [str(c.layout) for c in candidates], fontsize=8)
    axes.invert_yaxis()  # the first on top
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axes.set_xlabel(x)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(axes, right)


def _stack(
    axes: Axes, places: Iterable[int], bars: Sequence[Mapping[str, float]], unit: float, horizontal: bool = True
) -> None:
    """Bars of parts; one that is nothing in every bar is left out."""
    places, ends = list(places), [0.0] * len(bars)
    for name, color in zip(bars[0], _colors(bars[0]), strict=True):
        sizes = [parts[name] / unit for parts in bars]
        if not any(sizes):
            continue
        style: dict[str, Any] = {"color": color, "label": name, "edgecolor": "white", "linewidth": 0.5}
        if horizontal:
            axes.barh(places, sizes, left=ends, height=0.7, **style)
        else:
            axes.bar(places, sizes, bottom=ends, width=0.8, **style)
        ends = [end + size for end, size in zip(ends, sizes, strict=True)]


def _colors(names: Iterable[str]) -> list[str]:
    """Of parts of the memory, or of the time: a part has the same in every figure."""
    from mindport.parallel.plan import memory, step_time

    names = list(names)
    parts = memory.PARTS if set(names) <= set(memory.PARTS) else step_time.PARTS
    return [COLORS[parts.index(name)] for name in names]


def _names(every: Iterable[Mapping[str, float]]) -> list[str]:
    """Parts in their order."""
    return list(dict.fromkeys(name for parts in every for name in parts))


def _legend(axes: Axes, right: float = 1.0) -> None:
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(right, 1))


def _powers(axes: Axes, cards: Sequence[int]) -> None:
    """A logarithmic axis whose ticks are the numbers of cards."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(cards, [f"{count:,}" for count in cards], fontsize=8)
    axes.minorticks_off()


def _say_unfit(axes: Axes, curves: Mapping[str, Sequence[Scaled]]) -> None:
    """Numbers of cards on which nothing fits."""
    unfit = sorted({p.devices for points in curves.values() for p in points if p.layout is None})
    if unfit:
        said = ", ".join(f"{count:,}" for count in unfit)
        axes.text(1, 0.02, f"nothing fits on {said}", transform=axes.transAxes, ha="right", fontsize=9, color="#57606a")


def _thousands(value: float, _: object) -> str:
    return f"{value / 1024:g}k" if value >= 1024 else f"{value:g}"
