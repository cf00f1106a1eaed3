"""The gradients of step 0: all of them a multiple of the right ones, some of them missing, or a tied one only half."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mindport.debug.diagnosis.cause import Cause
from mindport.debug.diagnosis.training.causes import SIGN, SYMPTOM, cause
from mindport.debug.diagnosis.training.steps import AUDIBLE, SAME, TABLE, TINY, Steps, largest, multiple
from mindport.errors import some

SCALES = 128  # from here on powers of two are loss scales; smaller whole numbers count micro-batches
HEAD = "head.weight"


def explain_gradients(steps: Steps) -> list[Cause]:
    """What is wrong with the gradients, or with their norm."""
    wrong = [name for name in steps.names if _error(steps, name) > steps.allowed(f"grad/{name}", SAME)]
    if not wrong:
        times = float(steps.mine("norm")[0] / max(float(steps.right("norm")[0]), TINY))
        return [_of_norm(steps, times)] if abs(times - 1) > steps.allowed("norm", SAME) else []
    factor = _common_factor(steps)
    if factor is not None:
        return [factor_cause(factor, "every gradient at step 0")]
    return _detached(steps, wrong) or _half_tied(steps, wrong) or [_somewhere(steps, wrong)]


def factor_cause(factor: float, what: str) -> Cause:
    """The cause of gradients that are `factor` times the right ones."""
    evidence = f"{what} is {factor:.6g} times the right one"
    if times := _whole(factor):
        return cause("loss_scale_kept" if times >= SCALES else "accumulation_summed", evidence, times=times)
    if parts := _whole(1 / (factor or TINY)):
        return cause("divided_twice", evidence, times=parts)
    if abs(factor + 1) <= SAME:
        return cause("gradient_sign", evidence)
    return cause("gradient_factor", evidence, SIGN)


def _whole(x: float) -> int:
    """The count of micro-batches or the loss scale that `x` is; 0 when it is neither."""
    whole = round(x) if np.isfinite(x) else 0
    known = 1 < whole < SCALES or (whole >= SCALES and is_power(whole))
    return whole if known and abs(x / whole - 1) <= SAME else 0


def is_power(whole: int) -> bool:
    """Whether it is a power of two."""
    return whole & (whole - 1) == 0


def _of_norm(steps: Steps, times: float) -> Cause:
    """Right gradients with another norm: the optimizer got scaled ones, or only the norm was taken of those."""
    name, (one, _) = steps.audible[0], steps.recipe.betas
    passed, _ = multiple(steps.mine(f"m/1/{name}"), (1 - one) * steps.mine(f"grad/{name}"))
    if abs(passed / steps.clip(1) - 1) > SAME:
        return factor_cause(times, "the norm at step 0")
    evidence = f"our norm at step 0 is {times:.6g} times that of our gradients, which are clipped to {passed:.1e} by it"
    return cause("clip_before_unscale", evidence)


def _common_factor(steps: Steps) -> float | None:
    """The number that all our gradients are multiplied with, if there is one."""
    found = [multiple(steps.mine(f"grad/{name}"), steps.right(f"grad/{name}")) for name in steps.audible]
    factors = np.array([factor for factor, _ in found])
    middle = float(np.median(factors))
    steady = max(off for _, off in found) <= SAME and largest(factors / (middle or TINY) - 1) <= SAME
    return middle if steady else None


def _detached(steps: Steps, wrong: Sequence[str]) -> list[Cause]:
    """Parameters that get no gradient at all."""
    none = [name for name in wrong if not steps.mine(f"grad/{name}").any()]
    if not none:
        return []
    size = max(largest(steps.right(f"grad/{name}")) for name in none)
    evidence = f"{len(none)} of {len(steps.names)} gradients are 0 throughout; torch's go up to {size:.1e}"
    return [cause("detached", evidence, names=some(none))]


def _half_tied(steps: Steps, wrong: Sequence[str]) -> list[Cause]:
    """A tied table that learns as a head only, or as an embedding only: rows that are not fed tell the two apart."""
    if list(wrong) != [TABLE] or HEAD in steps.names:
        return []
    ours, right = (x.ravel() for x in (steps.mine(f"grad/{TABLE}"), steps.right(f"grad/{TABLE}")))
    idle = ~np.isin(steps.rows_of_table, steps.reference["batches"][0])  # numbers of rows that are not fed
    if not ours[idle].any():
        evidence = f"rows of tokens that are not fed have gradient 0, torch's up to {largest(right[idle]):.1e}"
        return [cause("tied_one_side", evidence, half="an embedding only, not as the head")]
    if largest((ours - right)[idle]) <= SAME * _unit(steps, TABLE):
        evidence = f"only rows of tokens that are fed differ from torch's, by {largest(ours - right):.1e}"
        return [cause("tied_one_side", evidence, half="the head only, not as an embedding")]
    return []


def _somewhere(steps: Steps, wrong: Sequence[str]) -> Cause:
    worst = max(wrong, key=lambda name: _error(steps, name))
    evidence = f"{len(wrong)} of {len(steps.names)} gradients differ, most {worst}: {_error(steps, worst):.1e}"
    return cause("gradient_differs", evidence, SYMPTOM, name=wrong[-1])


def _error(steps: Steps, name: str) -> float:
    """The distance of a gradient from torch's, over its size."""
    return largest(steps.mine(f"grad/{name}") - steps.right(f"grad/{name}")) / _unit(steps, name)


def _unit(steps: Steps, name: str) -> float:
    """The largest value of a gradient, or a share of the largest of all."""
    return max(largest(steps.right(f"grad/{name}")), AUDIBLE * steps.loudest, TINY)
