"""A race of forms of one training step, and the figures that every study reads off it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindport.measure.flops import step_flops
from mindport.tuning.case import Case
from mindport.tuning.contestant import Contestant
from mindport.tuning.race import Plan, race
from mindport.tuning.shapes import Workload
from mindport.tuning.workload import Effort

FORMS = "mindport.tuning.forms"  # imported in the contestants' own processes
KERNELS = ("attention", "linear", "rms_norm", "layer_norm", "rope", "gelu", "geglu", "silu", "swiglu",
           "cross_entropy", "global_norm", "adamw", "dropout")  # fmt: skip
LOSS_LIMIT, GRADIENT_LIMIT = 1e-4, 1e-4  # relative; the gradients' is over the largest value of each parameter
LOSSES = ("loss 1", "loss 2", "loss 3")  # later ones tell more of how training amplifies rounding
LIMITS = {"loss": LOSS_LIMIT, "": GRADIENT_LIMIT}


@dataclass(frozen=True)
class Figures:
    """One contestant.

    Attributes:
        name: in tables and plots.
        seconds: of a step, the median.
        fastest, slowest: of all that were timed.
        memory: megabytes that its process grew by.
        loss_error, gradient_error: largest relative differences from the first contestant; None when there is none
            of this kind to compare.
        first_seconds: the first step, compilation included; None where it is not known.
        kernels: kernel → path.
    """

    name: str
    seconds: float
    fastest: float
    slowest: float
    memory: float
    loss_error: float | None
    gradient_error: float | None
    first_seconds: float | None
    kernels: Mapping[str, str]

    @property
    def same(self) -> bool:
        """Whether it computed what the first contestant computed; NaN is not the same."""
        return all(error is None or error <= limit for error, limit in
                   ((self.loss_error, LOSS_LIMIT), (self.gradient_error, GRADIENT_LIMIT)))  # fmt: skip

    @property
    def state(self) -> str:
        return "pass" if self.same else "failed"


def milliseconds(seconds: float) -> str:
    """Three digits, never as a power of ten."""
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def form(name: str, workload: Workload, *, optional: bool = False, **settings: Any) -> Contestant:
    """A contestant that runs the workload's step in one form; see `forms.step`."""
    return Contestant(name, FORMS, "step", {**workload.settings(), **settings}, optional)


def study(workload: Workload, contestants: Sequence[Contestant], effort: Effort) -> Case:
    """Start every contestant in a process of its own and time them in turn.

    Raises:
        BackendError: one that is not optional cannot be built, or fails.
    """
    work = step_flops(workload.config, workload.batch, workload.tokens) / 1e9
    plan = Plan(work, LIMITS, rounds=effort.rounds, calls=1, warm_up=effort.warm_up, threads=effort.threads,
                peaks=False, warm=effort.warm)  # fmt: skip
    return race(workload.name, contestants, plan)


def figures(case: Case) -> tuple[Figures, ...]:
    """What was measured of each contestant, in the order of the race."""
    return tuple(_figures(case, name) for name in case.timings)


def absent(case: Case) -> dict[str, str]:
    """Who did not take part, and why in one line."""
    return {name: why.splitlines()[0].partition(": ")[2] for name, why in case.absent.items()}


def _figures(case: Case, name: str) -> Figures:
    timing, about = case.timings[name], case.about[name]
    values = [row for row in case.numerics if row.peer == name]
    kernels = {kernel: path for kernel, path, _ in about.get("kernels", ())}
    loss = _worst(value.error for value in values if value.value in LOSSES)
    ours = "first seconds" in about  # peers do not tell their gradients
    gradient = _worst(value.error for value in values if value.value.startswith("gradient")) if ours else None
    return Figures(name, timing.median, timing.fastest, timing.slowest, case.memory[name].growth, loss, gradient,
                   about.get("first seconds"), kernels)  # fmt: skip


def _worst(errors: Iterable[float]) -> float | None:
    """The largest, NaN when there is one; None of none."""
    found = list(errors)
    return math.nan if any(map(math.isnan, found)) else max(found, default=None)
