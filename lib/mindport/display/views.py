"""What the sliders of notebook 06 look at: a result and its picture, for each setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mindport.display.pipelines import plot_pipeline
from mindport.display.plans import plot_fit
from mindport.errors import UsageError
from mindport.mindformers import Layout
from mindport.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mindport.parallel.plan import Job


@dataclass(frozen=True)
class Pictured:
    """A result with a picture, which is drawn when it is shown.

    Attributes:
        result: the answer.
        draw: makes the picture; None where there is nothing to draw.
    """

    result: Result
    draw: Callable[[], Figure] | None = None

    def headline(self) -> str:
        """The answer in one sentence."""
        return self.result.headline()

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.result)
        if self.draw is not None:
            display(self.draw())


def layout_view(job: Job, layout: Layout | None = None) -> Callable[..., Pictured]:
    """A view for `explore`: memory bars and the verdict of a layout.

    Args:
        job: the model, the hardware, the batch.
        layout: the rest of the layout: ZeRO, sequence parallelism, recomputation.
    """
    from mindport.parallel.plan import judge

    rest = layout or Layout()

    def view(
        devices: int = job.devices, tp: int = 1, pp: int = 1, micro_batches: int = 1, seq: int = job.seq
    ) -> Pictured:
        if devices % (tp * pp):
            raise UsageError("the cards do not divide", got=f"{devices} cards, tp {tp}, pp {pp}",
                             expected=f"a multiple of {tp * pp} cards")  # fmt: skip
        chosen = replace(rest, dp=devices // (tp * pp), tp=tp, pp=pp, micro_batches=micro_batches)
        found = judge(replace(job, devices=devices, seq=seq), chosen)
        candidate = found.candidate
        return Pictured(found, None if candidate is None else lambda: plot_fit([candidate]))

    return view


def bubble_view(stages: int = 4, micro_batches: int = 8, interleave: int = 1) -> Pictured:
    """A view for `explore`: the bubble calculator with its schedule."""
    from mindport.parallel.plan import schedule

    found = schedule(stages, micro_batches, interleave)
    return Pictured(found, lambda: plot_pipeline(found))
