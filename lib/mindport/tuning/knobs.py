"""Why the fast formulation is fast: the training step with one knob off at a time, in Graph mode and in PyNative.

A knob is a kernel that falls back to plain operators, or another formulation of a piece: what it costs to turn it off
is what it is worth. A kernel whose path here is the plain one already has no knob, and that is said.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mindport.measure.flops import step_flops
from mindport.tables import Table
from mindport.tuning import shapes
from mindport.tuning.benchmark import Benchmark
from mindport.tuning.case import Case
from mindport.tuning.contestant import Contestant
from mindport.tuning.peers import OURS
from mindport.tuning.race import Plan, Worker, race

MODES = ("graph", "pynative")
FORMULATIONS = ("nn.Dense", "broadcast mask", "ops.cross_entropy")
OTHER_MODES = {"ms.jit, not a Cell": {"mode": "jit"}, "PyNative": {"mode": "pynative"}}  # of Graph mode
BEST = "all on"
LIMITS = {"loss": 1e-4}
LLAMA_STEP = shapes.Workload(
    "LLaMA step (2 layers, 576, 9/3 heads, V 8192), 1 × 512",
    replace(shapes.SMOLLM2_STEP.config, num_hidden_layers=2, vocab_size=8192), 1, 512,
)  # fmt: skip
WORKLOADS = (shapes.GPT2_STEP, LLAMA_STEP)


def cases(quick: bool = False) -> Iterator[Case]:
    """Two models in two modes; quick: one in tiny, with every knob."""
    for workload in (shapes.quick(LLAMA_STEP),) if quick else WORKLOADS:
        paths = _paths(workload)
        for mode in MODES:
            yield case(workload, mode, paths, quick)


def case(workload: shapes.Workload, mode: str, paths: dict[str, str], quick: bool = False) -> Case:
    """One model in one mode.

    Args:
        workload: the model and its batch.
        mode: "graph" or "pynative".
        paths: kernel → the path that it has here.
        quick: two rounds.
    """
    absent = {f"{kernel}: reference": "it is the path here already" for kernel, path in paths.items()
              if path == "reference"}  # fmt: skip
    knobs: dict[str, dict[str, Any]] = {BEST: {}}
    knobs |= {f"{kernel}: reference": {"overrides": [kernel]} for kernel in paths}
    knobs |= {name: {"variants": [name]} for name in FORMULATIONS}
    knobs |= OTHER_MODES if mode == "graph" else {}
    same = {**workload.settings(), "mode": mode}
    contestants = [Contestant(name, OURS, "step", same | off) for name, off in knobs.items() if name not in absent]
    work = step_flops(workload.config, workload.batch, workload.tokens) / 1e9
    plan = Plan.of(work, LIMITS, {}, quick, warm_up=shapes.STEPS)
    return race(f"{workload.name}, {mode}", contestants, plan, absent)


@dataclass(frozen=True)
class Knobs(Benchmark):
    """What each knob is worth: the time without it, over the time with all of them."""

    def headline(self) -> str:
        parts = (
            f"{case.name}: " + ", ".join(f"× {cost:.2f} without {name}" for name, cost in _costs(case)[:3])
            for case in self.cases
        )
        return f"{self.name}, what turning one off costs, dearest first: {'; '.join(parts)}{self.verdicts()}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(case.name, name, cost) for case in self.cases for name, cost in _costs(case)]
        return (Table("one knob off: time / time with all on", ("case", "off", "×"), rows), *super().tables())


def _costs(case: Case) -> Sequence[tuple[str, float]]:
    """Each knob and its cost, dearest first."""
    return sorted(((name, 1 / ratio) for name, ratio in case.ratios.items()), key=lambda row: -row[1])


def _paths(workload: shapes.Workload) -> dict[str, str]:
    """Kernel → path of everything that this model's training step is made of."""
    with tempfile.TemporaryDirectory(prefix="mindport-bench-") as folder:
        with Worker(Contestant(BEST, OURS, "step", workload.settings()), Path(folder) / "probe", threads=1) as worker:
            worker.build(warm_up=0)
            return {kernel: path for kernel, path, _ in worker.about["kernels"]}
