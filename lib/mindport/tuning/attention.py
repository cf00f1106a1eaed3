"""Attention, forward and forward with backward, beside torch's SDPA and its plain products."""

from __future__ import annotations

from collections.abc import Iterator

from mindport.measure.flops import FORWARD, TRAINING, attention_flops
from mindport.tuning.case import Case
from mindport.tuning.contestant import Contestant
from mindport.tuning.peers import OURS, TORCH
from mindport.tuning.race import Plan, race

HEADS = ((12, 12), (9, 3))  # query heads, key/value heads: GPT-2, SmolLM2
HEAD_DIM = 64
TOKENS = (128, 512, 1024, 2048, 4096)
LIMITS = {"y": 1e-5, "d": 1e-4}  # relative; a wrong scale is off by 1e-2 and more
AIM, AIMED_FROM = 0.75, 512  # of SDPA's time, forward and backward, from so many tokens on
QUICK = {"heads": 4, "kv_heads": 2, "head_dim": 16, "tokens": 40, "backward": True}


def cases(quick: bool = False) -> Iterator[Case]:
    """Every length, with and without shared heads; quick: one tiny case."""
    if quick:
        yield case(**QUICK, quick=True)
        return
    for heads, kv_heads in HEADS:
        for tokens in TOKENS:
            for backward in (False, True):
                yield case(heads, kv_heads, HEAD_DIM, tokens, backward)


def case(heads: int, kv_heads: int, head_dim: int, tokens: int, backward: bool, quick: bool = False) -> Case:
    """One length and one direction."""
    settings = {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "tokens": tokens, "backward": backward}
    contestants = (
        Contestant("mindport", OURS, "attention", settings),
        Contestant("torch SDPA", TORCH, "attention", {**settings, "how": "sdpa"}),
        Contestant("torch matmul", TORCH, "attention", {**settings, "how": "matmul"}),
    )
    work = attention_flops(heads, head_dim, tokens) * (TRAINING if backward else FORWARD) / 1e9
    aims = {"torch SDPA": AIM} if backward and tokens >= AIMED_FROM else {}
    direction = "forward + backward" if backward else "forward"
    return race(f"{direction}, {heads}/{kv_heads} heads, T {tokens}", contestants, Plan.of(work, LIMITS, aims, quick))
