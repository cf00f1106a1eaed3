"""Between the gradient and the step: what our own gradients became in m and v. Clipping, betas, L2, lost state.

After step 1 the means are m = (1 − β₁) · k·g and v = (1 − β₂) · (k·g)², with k the factor of clipping.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mindport.debug.diagnosis.cause import Cause
from mindport.debug.diagnosis.training.causes import SYMPTOM, cause
from mindport.debug.diagnosis.training.gradients import factor_cause
from mindport.debug.diagnosis.training.steps import SAME, SCALAR, Steps, apart, clip_factor, largest, multiple

Factors = Mapping[str, float]


def explain_moments(steps: Steps) -> list[Cause]:
    """What is wrong with m and v, given our gradients of step 0 and the norm that we report."""
    return _forgotten(steps) or _taken(steps)


def _taken(steps: Steps) -> list[Cause]:
    """What the first step took of the gradients."""
    (one, two), m, v, off = steps.recipe.betas, {}, {}, 0.0
    for name in steps.audible:
        gradient = steps.mine(f"grad/{name}")
        m[name], m_off = multiple(steps.mine(f"m/1/{name}"), (1 - one) * gradient)
        v[name], v_off = multiple(steps.mine(f"v/1/{name}"), (1 - two) * gradient**2)
        off = max(off, m_off, v_off)
    if off > SAME:
        return [_l2(steps) or _other(off)]
    if max(_spread(m), _spread(v)) > SAME:
        return [_per_tensor(steps, m)]
    return _evenly(steps, _middle(m), _middle(v))


def _evenly(steps: Steps, m: float, v: float) -> list[Cause]:
    """Every m and v are `m` and `v` times those of the unclipped gradients."""
    clip, (one, two) = steps.clip(1), steps.recipe.betas
    if _near(m, clip) and _near(v, clip**2):
        return []
    evidence = f"m is {m:.5g} · (1 − β₁) · g, v {v:.5g} · (1 − β₂) · g²; clipped: {clip:.5g} and {clip**2:.5g}"
    if _near(m, 1) and _near(v, 1):
        return [cause("clip_missing", evidence)]
    if _near(v, m * m):
        return [factor_cause(m / clip, "what the optimizer got at step 1")]
    got = (1 - (1 - one) * m / clip, 1 - (1 - two) * v / clip**2)
    return [cause("betas", evidence, got=f"{got[0]:.5g} and {got[1]:.5g}", told=f"{one:g} and {two:g}")]


def _per_tensor(steps: Steps, m: Factors) -> Cause:
    """Each parameter has a factor of its own; checked on those that are whole in the trace."""
    limit = steps.recipe.max_norm
    alone = {name: clip_factor(limit, float(np.linalg.norm(steps.mine(f"grad/{name}")))) for name in m}
    same = sum(_near(m[name], alone[name]) for name in m)
    evidence = f"factors from {min(m.values()):.3g} to {max(m.values()):.3g}, {same} of {len(m)} those of its own norm"
    return cause("clip_per_tensor", evidence) if same > len(m) / 2 else cause("factors_differ", evidence, SYMPTOM)


def _l2(steps: Steps) -> Cause | None:
    """m is that of gradients with weight_decay · w in them."""
    told, error = steps.recipe, 0.0
    for name in steps.audible:
        decay = 0.0 if name in told.no_decay else told.weight_decay
        given = steps.clip(1) * steps.mine(f"grad/{name}") + decay * steps.mine(f"weight/0/{name}")
        error = max(error, apart(steps.mine(f"m/1/{name}"), (1 - told.betas[0]) * given))
    if error > SAME:
        return None
    return cause("l2_not_decoupled", f"m is (1 − β₁) · (k·g + {told.weight_decay:g} · w) to {error:.1e}")


def _forgotten(steps: Steps) -> list[Cause]:
    """m and v are those of one gradient again: v is then m² times a number, whatever the gradient was."""
    one, two = steps.recipe.betas
    for t in (2, 3):
        if steps.has(f"m/{t}/{steps.names[0]}"):
            pairs = [(steps.mine(f"v/{t}/{name}"), steps.mine(f"m/{t}/{name}")) for name in steps.audible]
            off = max(apart(v, (1 - two) / (1 - one) ** 2 * m**2) for v, m in pairs)
            if off <= SAME:
                evidence = f"after step {t} v is (1 − β₂) / (1 − β₁)² · m² to {off:.1e}, as only after a first step"
                return [cause("state_not_kept", evidence)]
    return []


def _other(off: float) -> Cause:
    evidence = f"m after step 1 is no multiple of our gradient of step 0: {off:.1e} away"
    return cause("other_gradient", evidence, SYMPTOM)


def _middle(factors: Factors) -> float:
    return float(np.median(list(factors.values())))


def _spread(factors: Factors) -> float:
    return largest(np.array(list(factors.values())) / _middle(factors) - 1)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 3 * SCALAR * abs(other)
