"""A full training step beside torch, torch.compile, and a translation line by line."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.measure.flops import step_flops
from mindport.tuning import shapes
from mindport.tuning.case import Case
from mindport.tuning.contestant import Contestant
from mindport.tuning.peers import NAIVE, OURS, TORCH
from mindport.tuning.race import Plan, race

WORKLOADS = (shapes.GPT2_STEP, shapes.SMOLLM2_STEP)
LIMITS = {"loss": 1e-4}
AIMS = {"torch, fused AdamW": 0.90, "torch.compile": 1.0, "line by line": 1 / 3}


def cases(quick: bool = False) -> Iterator[Case]:
    """GPT-2's shape and SmolLM2's; quick: both in tiny, without the compiler, which takes a minute of its own."""
    for workload in map(shapes.quick, WORKLOADS) if quick else WORKLOADS:
        yield case(workload, quick)


def case(workload: shapes.Workload, quick: bool = False) -> Case:
    """One model and batch."""
    same = workload.settings()
    contestants = [
        Contestant("mindport", OURS, "step", same),
        Contestant("torch, fused AdamW", TORCH, "step", {**same, "optimizer": "fused"}),
        Contestant("torch, foreach AdamW", TORCH, "step", {**same, "optimizer": "foreach"}),
        Contestant("line by line", NAIVE, "step", same),
    ]
    if not quick:  # it needs a C++ compiler, so it may be missing
        contestants.append(Contestant("torch.compile", TORCH, "step", {**same, "compiled": True}, optional=True))
    absent = {"torch.compile": "left out of quick runs"} if quick else {}
    work = step_flops(workload.config, workload.batch, workload.tokens) / 1e9
    plan = Plan.of(work, LIMITS, AIMS, quick, warm_up=shapes.STEPS)
    return race(workload.name, contestants, plan, absent)
