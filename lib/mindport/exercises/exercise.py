"""One question of a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Exercise:
    """A question with a check that does not give the answer away.

    Attributes:
        question: what is asked, one or two sentences.
        check: true for a right answer, which comes first, then what is given by name. It may raise on an answer of
            another kind, which then counts as wrong; the words of a `MappingError` are shown as the reason.
        hints: a nudge, then most of the way.
        solution: the answer and why; a function where it depends on what is given.
        expects: the kind of answer ("an integer"), said when `check` cannot use the one given.
    """

    question: str
    check: Callable[..., bool]
    hints: tuple[str, str]
    solution: str | Callable[..., str]
    expects: str = "an answer of another kind"


@dataclass(frozen=True)
class Skip:
    """An answer that cannot be given here, and why: `check("03.ratio", Skip("torch is not installed"))`."""

    why: str


def words(answer: str) -> set[str]:
    """The words of an answer, so that "the sync" is as right as "Sync."."""
    return set(re.findall(r"\w+", answer.lower()))
