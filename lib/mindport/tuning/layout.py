"""Is another layout of the hidden states faster? One block of work in four layouts, with the copies each needs.

The work is what a layer does between two attentions: a norm over the hidden axis and a linear map. The claim (C189 to
C191 of the ledger) is that (B, T, d) is the slow one and a layout with d in front, (B, d, T) or the (B, d, T, 1) of
images, the fast one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tuning.case import Timing
from mindport.tuning.harness import in_turn
from mindport.tuning.isolated import isolated
from mindport.tuning.workload import cut_model, effort

USUAL, COPIED, FRONT, IMAGE = (
    "(B, T, d)", "(B, d, T), copied to (B, T, d) and back", "(B, d, T), W · x", "(B, d, T, 1), 1 × 1 convolution",
)  # fmt: skip
LIMIT = 1e-5  # relative, between layouts
ROUNDS = {"smoke": 31, "small": 21, "full": 21}


@dataclass(frozen=True)
class Timed:
    """One layout: seconds of its calls, and the largest relative difference from the usual one's result."""

    layout: str
    seconds: Timing
    error: float


@dataclass(frozen=True)
class Layout(Result):
    """The layouts, the usual one first."""

    shape: tuple[int, int, int, int]
    layouts: tuple[Timed, ...]

    @property
    def ok(self) -> bool:
        """Whether all compute the same; which is the fastest is an answer, not a verdict."""
        return len(self.layouts) > 1 and all(each.error <= LIMIT for each in self.layouts)

    @property
    def claim(self) -> str:
        """What became of "another layout is faster"."""
        usual, *others = self.layouts
        best = min(others, key=lambda each: each.seconds.median)
        ratio = f"{best.layout} takes {best.seconds.median / usual.seconds.median:.2f} of the time"
        if best.seconds.upper_quartile < usual.seconds.lower_quartile:
            return f"confirmed here: {ratio}"
        apart = usual.seconds.upper_quartile < best.seconds.lower_quartile
        return f"refuted here: the best other one, {ratio}" if apart else f"undecided here, within the spread: {ratio}"

    def headline(self) -> str:
        return f"“another layout than (B, T, d) is faster” is {self.claim}"

    def tables(self) -> tuple[Table, ...]:
        usual = self.layouts[0].seconds.median
        rows = [(e.layout, f"{1e3 * e.seconds.median:.3g}", e.seconds.median / usual,
                 f"{1e3 * e.seconds.lower_quartile:.3g} – {1e3 * e.seconds.upper_quartile:.3g}", e.error)
                for e in self.layouts]  # fmt: skip
        b, t, d, f = self.shape
        title = f"norm and linear map, B {b}, T {t}, d {d} → {f}"
        return (Table(title, ("layout", "ms", "× the usual", "quartiles", "off by"), rows),)

    def properties(self) -> tuple[Property, ...]:
        how = "a norm over d and a linear map in four layouts, Graph mode, in turn, equal results; forward only"
        return (
            verdict("layouts of the hidden states are compared on equal results", self.ok, how, self.claim, "CPU"),
            Property("which layout an Ascend NPU prefers", "not verified",
                     "Ascend's fused attention takes (B, T, d) too (input_layout BSH); profile on the device"),
        )  # fmt: skip


def compare_layouts(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Layout:
    """Time the four layouts at the sizes of the model.

    Raises:
        BackendError: the measuring process failed.
    """
    chosen, config = effort(size), cut_model(directory, size, allow).config
    shape = (chosen.batch, chosen.tokens, config.hidden_size, config.intermediate_size)
    rows = isolated(measure, *shape, ROUNDS[size])
    return Layout(shape, tuple(Timed(name, Timing.of(seconds), error) for name, seconds, error in rows))


def measure(b: int, t: int, d: int, f: int, rounds: int) -> list[tuple[str, list[float], float]]:
    """Layout, seconds of its calls, error; run in a process of its own."""
    import mindspore as ms
    import numpy as np

    from mindport.tuning.layout_cells import Copied, Front, Image, Usual
    from mindport.tuning.shapes import normal

    ms.set_context(mode=ms.GRAPH_MODE)
    x, w = normal("x", (b, t, d)), normal("w", (f, d), d**-0.5)
    cells = {USUAL: Usual(w), COPIED: Copied(w), FRONT: Front(w), IMAGE: Image(w)}
    front = np.ascontiguousarray(x.transpose(0, 2, 1))  # (B, d, T)
    inputs = {USUAL: x, COPIED: front, FRONT: front, IMAGE: front[..., None]}
    calls = {name: _call(cells[name], ms.Tensor(array)) for name, array in inputs.items()}
    found = {name: call().reshape(b, f, t) for name, call in calls.items() if name != USUAL}
    found[USUAL] = calls[USUAL]().transpose(0, 2, 1)
    seconds = {name: [call for turn in turns for call in turn] for name, turns in in_turn(calls, rounds).items()}
    largest = np.abs(found[USUAL]).max()
    return [(name, seconds[name], float(np.abs(found[name] - found[USUAL]).max() / largest)) for name in calls]


def _call(cell: Any, x: Any) -> Callable[[], Any]:
    return lambda: cell(x).asnumpy()
