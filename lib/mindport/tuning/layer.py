"""One layer, forward and backward, beside torch modules with SDPA."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.measure.flops import TRAINING, layers_flops
from mindport.tuning import shapes
from mindport.tuning.case import Case
from mindport.tuning.contestant import Contestant
from mindport.tuning.peers import OURS, TORCH
from mindport.tuning.race import Plan, race

WORKLOADS = (shapes.GPT2_LAYER, shapes.LLAMA_LAYER)
LIMITS = {"y": 1e-5, "d": 1e-4, "d blocks.0.attn.k.bias": float("inf")}  # its gradient is zero but for rounding
AIM = 0.95


def cases(quick: bool = False) -> Iterator[Case]:
    """GPT-2's and LLaMA's; quick: both in tiny."""
    for workload in map(shapes.quick, WORKLOADS) if quick else WORKLOADS:
        yield case(workload, quick)


def case(workload: shapes.Workload, quick: bool = False) -> Case:
    """One layer."""
    contestants = (
        Contestant("mindport", OURS, "layer", workload.settings()),
        Contestant("torch SDPA", TORCH, "layer", workload.settings()),
    )
    work = TRAINING * layers_flops(workload.config, workload.batch, workload.tokens) / 1e9
    return race(workload.name, contestants, Plan.of(work, LIMITS, {"torch SDPA": AIM}, quick))
