"""The course of a training: as one figure, or as one that moves while the training runs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mindport.display.plots import DENSE, PALETTE, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mindport.training.monitor.events import Alarm, Evaluation, Event
    from mindport.training.step_record import StepRecord

ALARM = "#a40e26"
PAUSE, SHARE = 2.0, 0.05  # seconds between two drawings at least; of the time, that drawing may take
SMOOTH = 25  # steps of the running median of a noisy curve that is longer than four of them
CLOSE = 0.03  # of the steps: alarms so near to each other share a label


def plot_curves(events: Iterable[Event]) -> Figure:
    """Loss with the points of held-out text, gradient norm, learning rate, tokens a second; alarms as red lines.

    Args:
        events: what `read_metrics(path)` gives, or a `LivePlot` has seen.
    """
    from mindport.display.figure import Plot
    from mindport.training.monitor.events import Alarm, Evaluation
    from mindport.training.step_record import StepRecord

    events = list(events)
    steps, held_out, alarms = ([e for e in events if isinstance(e, kind)] for kind in (StepRecord, Evaluation, Alarm))
    figure = Plot()
    figure.set_size_inches(9, 5.4)
    axes = figure.subplot_mosaic([["loss"] * 3, ["norm", "lr", "speed"]], height_ratios=(3, 2))
    _loss(axes["loss"], steps, held_out)
    _norm(axes["norm"], steps)
    _lr(axes["lr"], steps)
    _speed(axes["speed"], steps)
    _mark(list(axes.values()), alarms, max([s.step for s in steps], default=1))
    return figure


class LivePlot:
    """A sink for the monitor: a figure that follows the training where somebody looks on, else one at the end.

    Args:
        interactive: whether there is a front end (a parameter of the notebook).
    """

    def __init__(self, *, interactive: bool) -> None:
        self.events: list[Event] = []
        self._interactive, self._handle, self._next = interactive, None, 0.0

    def take(self, event: Event) -> None:
        """Keep it, and draw when it is time to."""
        self.events.append(event)
        if self._interactive and time.monotonic() >= self._next:
            self._draw()

    def close(self) -> None:
        """Draw all of it."""
        self._draw()

    def _draw(self) -> None:
        from IPython.display import display

        began = time.monotonic()
        figure: Any = plot_curves(self.events)
        if self._handle is None:
            self._handle = display(figure, display_id=True)
        else:
            self._handle.update(figure)
        now = time.monotonic()
        self._next = now + max(PAUSE, (now - began) / SHARE)


def _loss(axes: Axes, steps: Sequence[StepRecord], held_out: Sequence[Evaluation]) -> None:
    losses = [record.loss for record in steps]
    dress(axes, "loss", "step", "nats a token", log=False)
    _curve(axes, [record.step for record in steps], losses, "training")
    if held_out:
        axes.plot([e.step for e in held_out], [e.loss for e in held_out], color=PALETTE[1], marker="o", markersize=5,
                  linewidth=1, label="held-out")  # fmt: skip
    if axes.lines:
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    _say(axes, losses, "not finite")


def _norm(axes: Axes, steps: Sequence[StepRecord]) -> None:
    norms = [record.norm for record in steps]
    dress(axes, "norm of the gradients", "step", "before clipping", log=any(norm > 0 for norm in norms))
    _small(axes)
    _curve(axes, [record.step for record in steps], norms, "")
    _say(axes, norms, "not finite")


def _lr(axes: Axes, steps: Sequence[StepRecord]) -> None:
    dress(axes, "learning rate", "step", "", log=False)
    _small(axes)
    axes.plot([record.step for record in steps], [record.lr for record in steps], color=PALETTE[0], linewidth=1.6)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")


def _speed(axes: Axes, steps: Sequence[StepRecord]) -> None:
    rates = [_rate(record) for record in steps]
    dress(axes, "speed", "step", "tokens/s", log=False)
    _small(axes)
    _curve(axes, [record.step for record in steps], rates, "")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _say(axes, rates, "compiled")


def _small(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.title.set_fontsize(10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))


def _curve(axes: Axes, x: Sequence[int], values: Sequence[float], label: str) -> None:
    """The values, and a running median over them where there are many."""
    long = len(values) > 4 * SMOOTH
    marker = "" if len(values) > DENSE else "."
    axes.plot(x, _finite(values), color=PALETTE[0], linewidth=0.8 if long else 1.4, alpha=0.5 if long else 1.0,
              marker=marker, label=f"{label}, each step" if long else label)  # fmt: skip
    if long:
        axes.plot(x, _smooth(values), color=PALETTE[0], linewidth=1.6, label=f"{label}, median of {SMOOTH}")


def _smooth(values: Sequence[float]) -> list[float]:
    """The median of the finite values around each, as many before it as after."""
    return [_median(values, index, min(SMOOTH // 2, index, len(values) - 1 - index)) for index in range(len(values))]


def _median(values: Sequence[float], index: int, half: int) -> float:
    near = [value for value in values[index - half : index + half + 1] if math.isfinite(value)]
    return statistics.median(near) if near else math.nan


def _finite(values: Sequence[float]) -> list[float]:
    return [value if math.isfinite(value) else math.nan for value in values]


def _say(axes: Axes, values: Sequence[float], what: str) -> None:
    """How many values cannot be drawn, and why."""
    if missing := sum(not math.isfinite(value) for value in values):
        color = ALARM if what == "not finite" else "#57606a"
        axes.text(1, 1.02, f"{missing} {what}", transform=axes.transAxes, ha="right", fontsize=9, color=color)


def _rate(record: StepRecord) -> float:
    """Tokens a second; of steps that compiled, none."""
    return record.tokens / record.seconds if record.seconds > 0 and not record.compiled else math.nan


def _mark(every: Sequence[Axes], alarms: Sequence[Alarm], steps: int) -> None:
    """A line for each alarm in each plot, with its name in the first."""
    labels: dict[int, list[str]] = {}
    for alarm in alarms:
        for axes in every:
            axes.axvline(alarm.step, color=ALARM, linestyle=":", linewidth=1)
        near = next((step for step in labels if abs(step - alarm.step) <= CLOSE * steps), alarm.step)
        if alarm.name not in labels.setdefault(near, []):
            labels[near].append(alarm.name)
    for step, names in labels.items():
        every[0].text(step, 0.97, " " + ", ".join(names), transform=every[0].get_xaxis_transform(), rotation=90,
                      ha="right", va="top", fontsize=8, color=ALARM)  # fmt: skip
