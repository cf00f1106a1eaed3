"""What a step did to the weights, given the means and the rate that it left behind: which form of AdamW is it?

The step's own means go in, so nothing that went wrong before them is seen here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from mindport.debug.diagnosis.cause import Cause
from mindport.debug.diagnosis.training.causes import SYMPTOM, cause
from mindport.debug.diagnosis.training.forms import KEPT, MOVES, RATES, Form
from mindport.debug.diagnosis.training.steps import Steps, Update, largest, updates
from mindport.errors import some
from mindport.weights.names import natural

FITS = 4.0  # units of rounding; wrong forms are hundreds away
RIGHT = (RATES[0], KEPT[0], MOVES[0])
MISTAKES = 2  # at once


def explain_update(steps: Steps) -> list[Cause]:
    """The forms that our steps have where they are not the right ones, and parameters that do not move."""
    seen = sorted(updates(steps), key=lambda u: -u.t)  # a step at rate 0 shows least
    forms, still = _forms_of(seen), []
    if forms is None:
        still = [u for u in seen if _stands_still(u)]
        seen = [u for u in seen if not _stands_still(u)]
        forms = _forms_of(seen)
    causes = [_frozen(still)] if still else []
    if forms is None:
        return [*causes, _unexplained(seen)]
    return causes + [_cause(form, forms, seen) for form in forms if form.name]


def predict(u: Update, forms: Sequence[Form]) -> np.ndarray:
    """The parameter after the step, were it done in these forms (rate, kept, move)."""
    rate, kept, move = forms
    with np.errstate(all="ignore"):
        lr = rate.value(u, u.lr)
        return kept.value(u, lr) * u.before - lr * move.value(u, lr)


def _forms_of(seen: Sequence[Update]) -> tuple[Form, ...] | None:
    """The forms with fewest mistakes that make all of these; None when none do."""
    return next((forms for forms in _by_mistakes() if all(_fits(u, forms) for u in seen)), None)


def _by_mistakes() -> Iterator[tuple[Form, ...]]:
    """All choices of forms, the right one first, then those with one mistake, then with two."""
    choices = list(itertools.product(RATES, KEPT, MOVES))
    for count in range(MISTAKES + 1):
        yield from (forms for forms in choices if sum(bool(form.name) for form in forms) == count)


def _fits(u: Update, forms: Sequence[Form]) -> bool:
    return u.distance(predict(u, forms)) <= FITS


def _stands_still(u: Update) -> bool:
    return u.lr > 0 and np.isfinite(u.m).all() and np.array_equal(u.before, u.after) and not _fits(u, RIGHT)


def _error(which: Sequence[Update], forms: Sequence[Form]) -> float:
    return max(largest(u.after - predict(u, forms)) for u in which)


def _cause(form: Form, forms: Sequence[Form], moved: Sequence[Update]) -> Cause:
    evidence = (
        f"given our own m, v and rate, this makes our weights to {_error(moved, forms):.1e}; "
        f"the right step is {_error(moved, RIGHT):.1e} away"
    )
    return cause(form.name, evidence, eps=form.detail)


def _frozen(still: Sequence[Update]) -> Cause:
    names = sorted({u.name for u in still}, key=natural)
    evidence = (
        f"{len(names)} equal bit for bit after step {still[0].t} as before it, though the rate is {still[0].lr:.1e} "
        f"and m goes up to {max(largest(u.m) for u in still):.1e}"
    )
    return cause("frozen_weight", evidence, names=some(names))


def _unexplained(moved: Sequence[Update]) -> Cause:
    worst = max(moved, key=lambda u: u.distance(predict(u, RIGHT)))
    evidence = f"given our own m, v and rate, it is {_error([worst], RIGHT):.1e} away after step {worst.t}"
    return cause("other_step", evidence, SYMPTOM, name=worst.name)
