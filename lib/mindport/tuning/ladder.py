"""The optimisation ladder: one thing is switched on at a time, and after each the numbers are compared again.

A rung is timed beside all the others, in turn, in a process of its own; its parity is that of its losses over some
steps and of its first gradients. A kernel that has no faster path here is a rung that is skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindport.results import Property, Result, verdict
from mindport.tables import Table
from mindport.tuning.case import Case
from mindport.tuning.contestant import Contestant
from mindport.tuning.peers import NAIVE, TORCH
from mindport.tuning.shapes import Workload
from mindport.tuning.study import GRADIENT_LIMIT, LOSS_LIMIT, Figures, absent, figures, form, milliseconds, study
from mindport.tuning.workload import TRANSLATED, cut_model, effort, has_peers

NORMS = ("layer_norm", "rms_norm", "gelu", "geglu", "silu", "swiglu", "rope")
ADDED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("+ fused attention", ("attention",)),
    ("+ fused norms, activation, rotary", NORMS),
    ("+ fused loss", ("cross_entropy",)),
    ("+ fused optimizer", ("adamw", "global_norm")),
    ("+ C++ linear maps", ("linear",)),
)
TRANSLATION, PLAIN, GRAPH, RECOMPUTE, PEER = (
    "line by line", "plain operators, well chosen", "the step as one graph", "+ recompute", "torch eager",
)  # fmt: skip


@dataclass(frozen=True)
class Ladder(Result):
    """The rungs from the bottom up.

    Attributes:
        workload: what was trained, in words.
        rungs: those that were run, bottom first.
        torch: PyTorch in eager mode with its own fused attention and optimizer; None when it is not here.
        skipped: rung → why.
        mode: of the rungs above the graph's own.
    """

    workload: str
    rungs: tuple[Figures, ...]
    torch: Figures | None
    skipped: dict[str, str]
    mode: str

    @property
    def ok(self) -> bool:
        """Whether every rung computes the same; speed has no verdict."""
        return len(self.rungs) > 1 and all(rung.same for rung in self.compared)

    @property
    def compared(self) -> tuple[Figures, ...]:
        """The rungs, and torch where it is."""
        return self.rungs + ((self.torch,) if self.torch else ())

    def headline(self) -> str:
        first, best = self.rungs[0], min(self.rungs, key=lambda rung: rung.seconds)
        wrong = ", ".join(rung.name for rung in self.compared if not rung.same)
        beside = f", {best.seconds / self.torch.seconds:.2f} × {PEER}'s time" if self.torch else ""
        said = f"all {len(self.compared)} compute the same" if self.ok else f"NOT THE SAME COMPUTATION: {wrong}"
        return f"{first.seconds / best.seconds:.1f} times as fast as “{first.name}” at the best rung{beside}; {said}"

    def tables(self) -> tuple[Table, ...]:
        rows = [self._row(rung) for rung in self.compared]
        rows += [(name, None, None, None, None, None, None, None, f"skipped ({why})")
                 for name, why in self.skipped.items()]  # fmt: skip
        columns = ("rung", "ms a step", "fastest – slowest", "× first", "÷ torch", "memory MB", "loss off by",
                   "gradient off by", "state")  # fmt: skip
        return (Table(f"the ladder: {self.workload}", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = (f"losses of the first steps (limit {LOSS_LIMIT:g}) and a sample of every first gradient "
               f"(limit {GRADIENT_LIMIT:g}), relative to “{PLAIN}”; {self.workload}")  # fmt: skip
        skipped = (Property(f"rung “{name}” of the ladder", "skipped", why) for name, why in self.skipped.items())
        promise = "every rung of the optimisation ladder computes the same"
        return (verdict(promise, self.ok, how, self.headline(), "CPU"), *skipped)

    def kernels(self) -> Table:
        """The first step, compilation included, and the path of each kernel: what was really switched on."""
        names = list(dict.fromkeys(kernel for rung in self.rungs for kernel in rung.kernels))
        rows = [(rung.name, rung.first_seconds, *(rung.kernels.get(name) for name in names))
                for rung in self.rungs if rung.kernels]  # fmt: skip
        return Table("the first step, and the path of each kernel", ("rung", "first step s", *names), rows)

    def medians(self) -> dict[str, float]:
        """Rung → median, for the plot."""
        return {rung.name: 1e3 * rung.seconds for rung in self.rungs}

    def marks(self) -> dict[str, float]:
        """Peer → median, for the plot."""
        return {PEER: 1e3 * self.torch.seconds} if self.torch else {}

    def _row(self, rung: Figures) -> tuple[Any, ...]:
        times = f"{milliseconds(rung.fastest)} – {milliseconds(rung.slowest)}"
        beside = rung.seconds / self.torch.seconds if self.torch else None
        return (rung.name, milliseconds(rung.seconds), times, self.rungs[0].seconds / rung.seconds, beside,
                round(rung.memory), rung.loss_error, rung.gradient_error, rung.state)  # fmt: skip


def climb(directory: Path | str, size: str, allow: Sequence[str] = ()) -> Ladder:
    """Climb it.

    Args:
        directory: the Hugging Face directory whose model is cut for this; weights are not read.
        size: smoke, small or full.
        allow: unknown keys of config.json to let pass.

    Raises:
        BackendError: a rung that every machine has cannot be built.
    """
    chosen, cut = effort(size), cut_model(directory, size, allow)
    case = study(cut, contestants(cut, chosen.mode), chosen)
    return read(cut, case, chosen.mode)


def contestants(cut: Workload, mode: str) -> list[Contestant]:
    """The plain rung first, which the others are compared with, then the ladder from the bottom."""
    rungs = [form(PLAIN, cut, mode="pynative", fast=()), form(GRAPH, cut, fast=())]
    if has_peers(cut.config):
        rungs += [Contestant(TRANSLATION, NAIVE, "step", cut.settings(), optional=True),
                  Contestant(PEER, TORCH, "step", cut.settings(), optional=True)]  # fmt: skip
    fast: tuple[str, ...] = ()
    for name, kernels in ADDED:
        fast += kernels
        rungs.append(form(name, cut, mode=mode, fast=fast, needs=kernels, optional=True))
    return [*rungs, form(RECOMPUTE, cut, mode=mode, fast=fast, recompute=True, optional=True)]


def read(cut: Workload, case: Case, mode: str) -> Ladder:
    """The ladder from a race of its contestants."""
    found = {figure.name: figure for figure in figures(case)}
    skipped = absent(case)
    if not has_peers(cut.config):
        skipped[TRANSLATION] = skipped[PEER] = (
            f"they are written for {' and '.join(TRANSLATED)}, this model is {cut.config.model_type}")  # fmt: skip
    names = (TRANSLATION, PLAIN, GRAPH, *(name for name, _ in ADDED), RECOMPUTE)
    rungs = tuple(found[name] for name in names if name in found)
    return Ladder(cut.name, rungs, found.get(PEER), skipped, mode)
