"""Numbers that are float32 in name only: every one of them is also a float16 or a bfloat16."""

from __future__ import annotations

import numpy as np

from mindport.debug.diagnosis.cause import Cause
from mindport.debug.diagnosis.training.causes import cause
from mindport.debug.diagnosis.training.steps import Steps
from mindport.parity.trace import Trace

KINDS = {"grad/": "gradients", "m/1/": "m", "v/1/": "v", "weight/2/": "weights", "weight/3/": "weights"}


def explain_precision(steps: Steps) -> list[Cause]:
    """Which of gradients, state and weights are kept in half precision, where torch's are not."""
    for dtype in ("bfloat16", "float16"):
        kinds = [kind for kind in KINDS if _narrowed(steps, kind, dtype)]
        if kinds:
            what = " and ".join(dict.fromkeys(KINDS[kind] for kind in kinds))
            evidence = f"each number in the {len(steps.audible)} arrays is exactly a {dtype}; torch's are not"
            return [cause("narrow", evidence, what=what, dtype=dtype)]
    return []


def is_narrow(x: np.ndarray, dtype: str) -> bool:
    """Whether each float32 number is also one of the narrower type; of NaN and infinities nobody can say."""
    if not np.isfinite(x).all():
        return False
    if dtype == "bfloat16":
        return not (np.ascontiguousarray(x, np.float32).view(np.uint32) & 0xFFFF).any()
    with np.errstate(over="ignore"):
        return np.array_equal(x, x.astype(np.float16).astype(np.float32))


def _narrowed(steps: Steps, kind: str, dtype: str) -> bool:
    """Whether ours are narrow and torch's are not; weights that have not moved may be as the checkpoint has them."""
    if kind.startswith("weight") and not _moved(steps, kind):
        return False
    return _narrow(steps.ours, steps.mode + kind, steps, dtype) and not _narrow(steps.reference, kind, steps, dtype)


def _narrow(trace: Trace, kind: str, steps: Steps, dtype: str) -> bool:
    arrays = [trace[kind + name] for name in steps.audible if kind + name in trace]
    return bool(arrays) and all(is_narrow(x, dtype) for x in arrays)


def _moved(steps: Steps, kind: str) -> bool:
    shown = [name for name in steps.audible if steps.has(kind + name)]
    return any(not np.array_equal(steps.mine(kind + name), steps.mine(f"weight/0/{name}")) for name in shown)
