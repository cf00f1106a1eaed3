"""Pipelines as pictures: the schedule with its bubble, and the bubble against the number of micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mindport.display.plots import MARKERS, PALETTE, dress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mindport.parallel.plan import Schedule

FORWARD, BACKWARD, IDLE = PALETTE[0], PALETTE[4], "#eaeef2"
LEGIBLE = 160  # passes on a stage; above it numbers would not be read
SAMPLES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def plot_pipeline(schedule: Schedule) -> Figure:
    """Who computes what when: a row a stage, the number of the micro-batch in each pass, grey where a stage waits.

    Args:
        schedule: what `schedule(stages, micro_batches, interleave)` gives.
    """
    from mindport.display.figure import Plot

    figure = Plot()
    figure.set_size_inches(9, 1.5 + 0.42 * schedule.stages)
    axes = figure.subplots()
    axes.barh(range(schedule.stages), [schedule.span] * schedule.stages, height=0.86, color=IDLE, label="waits")
    for forward, color, ink, label in ((True, FORWARD, "white", "forward"), (False, BACKWARD, "black", "backward")):
        work = [piece for piece in schedule.work if piece.forward == forward]
        shades = [1.0 - 0.55 * piece.chunk / schedule.interleave for piece in work]
        boxes = axes.barh([w.stage for w in work], [w.end - w.start for w in work], left=[w.start for w in work],
                          height=0.86, color=[(color, shade) for shade in shades], edgecolor="white",
                          linewidth=0.6)  # fmt: skip
        boxes.set_label(label)
        if 2 * schedule.micro_batches * schedule.interleave <= LEGIBLE:
            numbers = [str(w.micro_batch + 1) for w in work]
            axes.bar_label(boxes, numbers, label_type="center", color=ink, fontsize=7 if len(work) < 80 else 5)
    chunks = f", {schedule.interleave} chunks of layers a stage (paler: later ones)" if schedule.interleave > 1 else ""
    title = f"{schedule.stages} stages, {schedule.micro_batches} micro-batches{chunks}: {schedule.idle:.1%} idle"
    dress(axes, title, "time, in forward passes of a stage (estimated: a backward pass takes 2, sending none)", "stage",
          log=False)  # fmt: skip
    axes.grid(False)
    axes.set_yticks(range(schedule.stages))
    axes.invert_yaxis()  # the first stage on top
    axes.set_xlim(0, schedule.span)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def plot_bubble(stages: Sequence[int] = (2, 4, 8, 16), interleave: int = 2) -> Figure:
    """The idle share of a step against the micro-batches, with the rule of 2 to 4 for each stage as a thick stretch.

    Args:
        stages: a line for each.
        interleave: chunks of layers a stage of the dashed lines; 1 draws none.
    """
    from mindport.display.figure import Plot
    from mindport.parallel.plan import bubble
    from mindport.parallel.plan.pipeline import RULE

    figure = Plot()
    axes = figure.subplots()
    for index, count in enumerate(stages):
        color, shown = PALETTE[index % len(PALETTE)], range(count, SAMPLES[-1] + 1)
        marked = [m - count for m in SAMPLES if m >= count]
        axes.plot(shown, [100 * bubble(count, m) for m in shown], color=color, label=f"{count} stages",
                  marker=MARKERS[index % len(MARKERS)], markersize=4, markevery=marked)  # fmt: skip
        ruled = range(RULE[0] * count, RULE[1] * count + 1)
        axes.plot(ruled, [100 * bubble(count, m) for m in ruled], color=color, linewidth=7, alpha=0.3)
        if interleave > 1:
            axes.plot(
                shown, [100 * bubble(count, m, interleave) for m in shown], color=color, linestyle="--", linewidth=1
            )
    dress(
        axes, "a pipeline's bubble (estimated)", "micro-batches of a step", "% of a step that a stage waits", log=False
    )
    axes.plot([], [], color="#57606a", linewidth=7, alpha=0.3, label=f"{RULE[0]} to {RULE[1]} for each stage")
    if interleave > 1:
        axes.plot([], [], color="#57606a", linestyle="--", linewidth=1, label=f"{interleave} chunks, interleaved")
    axes.set_xscale("log", base=2)
    axes.set_xticks(SAMPLES, [str(m) for m in SAMPLES])
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    return figure
