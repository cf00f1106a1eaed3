"""Fine-tuning SmolLM2-135M, the whole of it: tokens a second and memory beside torch, in turn.

Each row has a prompt and padding that do not count. The peer is the faster of two ways to have this model in torch: its
own operators (one matrix for q, k and v, SDPA, fused AdamW), not the class of transformers, which `mindport train
--beside-torch` trains.
"""

from __future__ import annotations

from collections.abc import Iterator

from mindport.machine import cores
from mindport.tuning import shapes
from mindport.tuning.case import Case
from mindport.tuning.contestant import Contestant
from mindport.tuning.peers import OURS, TORCH
from mindport.tuning.race import Plan, race

LIMITS = {"loss": 1e-4}
AIMS = {"torch, SDPA, fused AdamW": 1.0}
ROUNDS = 5  # of a step each, which takes seconds
COMPILED = "torch.compile"


def cases(quick: bool = False) -> Iterator[Case]:
    """One model; quick: in tiny, without the compiler."""
    yield case(shapes.quick(shapes.SMOLLM2_WHOLE) if quick else shapes.SMOLLM2_WHOLE, quick)


def case(workload: shapes.Workload, quick: bool = False) -> Case:
    """Ours beside torch, and beside its compiler."""
    same = {**workload.settings(), "tuned": True}
    contestants = [
        Contestant("mindport", OURS, "step", same),
        Contestant("torch, SDPA, fused AdamW", TORCH, "step", {**same, "optimizer": "fused"}),
    ]
    if not quick:  # it needs a C++ compiler, so it may be missing
        contestants.append(Contestant(COMPILED, TORCH, "step", {**same, "compiled": True}, optional=True))
    tokens = workload.batch * workload.tokens
    plan = Plan(tokens, LIMITS, AIMS, rounds=2 if quick else ROUNDS, calls=1, warm_up=shapes.STEPS,
                threads=1 if quick else cores(), unit="tokens/s", peaks=False)  # fmt: skip
    return race(workload.name, contestants, plan, {COMPILED: "left out of quick runs"} if quick else {})
