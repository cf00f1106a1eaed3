"""What MindSpore Transformers and the model ask of a layout; a rule has a reason, and the layouts that it refuses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.mindformers import rules as mindformers
from mindport.mindformers.rules import Rule
from mindport.mindformers.settings import settings as spoken
from mindport.mindformers.settings import unsaid
from mindport.parallel.plan.grid import Grid
from mindport.parallel.plan.job import Job


@dataclass(frozen=True)
class Refused:
    """Layouts that a rule refuses: how many, counted under the first rule that they break, and one of them."""

    rule: str
    reason: str
    count: int
    example: str


RULES = (
    Rule("global batch", "the global batch {batch} is no multiple of replicas × micro-batch",
         lambda job, g: g.batch == 0),
    *mindformers.RULES,
)  # fmt: skip


def legal(job: Job, grid: Grid) -> tuple[np.ndarray, tuple[Refused, ...]]:
    """Which layouts break no rule, and the others by the first rule that they break."""
    good, refused = np.ones(len(grid), dtype=bool), []
    for rule in RULES:
        broken = good & rule.broken(job, grid)
        if count := int(broken.sum()):
            example = str(grid.layout(int(broken.argmax())))
            refused.append(
                Refused(
                    rule.name, rule.reason.format(batch=job.global_batch, **mindformers.numbers(job)), count, example
                )
            )
        good &= ~broken
    return good, tuple(refused)


def expressible(grid: Grid, row: int) -> str:
    """What MindSpore Transformers' YAML does not offer of a layout, or "yes"."""
    missing = unsaid(grid.layout(row))
    return f"no: {missing}" if missing else "yes"


def settings(grid: Grid, row: int, job: Job) -> dict[str, object]:
    """The layout in MindSpore Transformers' words."""
    return spoken(grid.layout(row), int(grid.batch[row]), job.model.num_key_value_heads)
