"""The parts of an AdamW step, each in the right form (the first, without a name) and in those that ship by mistake.

    weight · kept − rate · move

`rate` and `kept` are numbers, `move` is made of the means m and v. Sources: mlx PR1640, keras#19051, pytorch#104857.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mindport.debug.diagnosis.training.steps import Update

EPSILONS = (0.0, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5)


@dataclass(frozen=True)
class Form:
    """One way to write a part: its value in an update at a rate, and the cause that it would be."""

    name: str
    value: Callable[[Update, float], Any]
    detail: str = ""


def adam(
    u: Update, rate: float, *, later: int = 0, eps: float | None = None, corrected: tuple[bool, bool] = (True, True)
) -> np.ndarray:
    """m̂ / (√v̂ + ε), torch's; the bias as so many steps `later`, and only of the means that are `corrected`."""
    c1, c2 = (c if wanted else 1.0 for c, wanted in zip(u.corrections(u.t + later), corrected, strict=True))
    return u.m / c1 / (np.sqrt(u.v / c2) + (u.recipe.eps if eps is None else eps))


def inside(u: Update, rate: float) -> np.ndarray:
    """m̂ / √(v̂ + ε)."""
    c1, c2 = u.corrections(u.t)
    return u.m / c1 / np.sqrt(u.v / c2 + u.recipe.eps)


def early(u: Update, rate: float) -> np.ndarray:
    """m̂ / ((√v + ε) / √(1 − β₂ᵗ)): the ε̂ at the end of section 2 of arXiv:1412.6980."""
    c1, c2 = u.corrections(u.t)
    return u.m / c1 / (np.sqrt(u.v) + u.recipe.eps) * np.sqrt(c2)


RATES = (
    Form("", lambda u, _: u.lr),
    Form("rate_not_used", lambda u, _: u.recipe.lr),
    Form("rate_of_last_step", lambda u, _: u.curve[max(0, u.t - 2)]),
    Form("rate_of_next_step", lambda u, _: u.curve[min(u.t, len(u.curve) - 1)]),
)
KEPT = (
    Form("", lambda u, rate: 1 - rate * u.decay),
    Form("decay_missing", lambda u, rate: 1.0),
    Form("decay_on_all", lambda u, rate: 1 - rate * u.recipe.weight_decay),
    Form("decay_without_rate", lambda u, rate: 1 - u.decay),
    Form("decay_on_the_rest", lambda u, rate: 1 - rate * (u.recipe.weight_decay - u.decay)),
)
MOVES = (
    Form("", adam),
    Form("no_bias_correction", partial(adam, corrected=(False, False))),
    Form("eps_inside_root", inside),
    Form("eps_before_correction", early),
    Form("adam_weight_decay", partial(adam, corrected=(False, False), eps=1e-6)),
    Form("no_correction_of_m", partial(adam, corrected=(False, True))),
    Form("no_correction_of_v", partial(adam, corrected=(True, False))),
    Form("step_counted_late", partial(adam, later=1)),
    Form("step_not_counted", lambda u, rate: adam(u, rate, later=1 - u.t)),
    Form("ascent", lambda u, rate: -adam(u, rate)),
    Form("clip_after_step", lambda u, rate: u.clip * adam(u, rate)),
    *(Form("eps_value", partial(adam, eps=eps), f"{eps:g}") for eps in EPSILONS),
)
