"""Small models and jobs for the planner's tests: every dimension different."""

from __future__ import annotations

from typing import Any

from mindport.parallel.plan import Job, hardware
from mindport.parallel.plan.published import shaped

LLAMA = shaped(d=256, L=7, a=8, kv=4, f=640, v=1024)
TIED = shaped(d=256, L=6, a=8, kv=8, f=512, v=1024, tied=True)
GPT = shaped(d=256, L=4, a=8, kv=8, f=1024, v=1536, gpt=True)
MODELS = {"llama": LLAMA, "tied": TIED, "gpt": GPT}


def job(model: str = "llama", device: str = "910B", settings: dict[str, float] | None = None, **changes: Any) -> Job:
    """A job of a small model."""
    given = {"devices": 8, "seq": 512, "global_batch": 24, **changes}
    return Job(MODELS[model], hardware(device).with_values(settings or {}), **given)
