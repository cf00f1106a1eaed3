"""What a softmax over a hidden row does to the rows after it: on a CPU they may be left unwritten.

Seen in MindSpore 2.10.0, float32: a row of nothing but −inf gives zeros, and some of the rows after it keep whatever
was in that memory before. The numbers are finite, so nothing complains, and they change from run to run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mindport.results import Result
from mindport.tables import Table

SCORES = np.array([[-np.inf] * 4, [1, 2, 3, 4]], np.float32)  # a hidden row, and a sound one
LIMIT = 1e-5


@dataclass(frozen=True)
class Leftovers(Result):
    """The same softmax many times.

    Attributes:
        runs: how often.
        hidden: what the hidden row gave, in the last run.
        after: what the sound row after it gave where that was wrong; for the first such run, empty without one.
        wrong: in how many runs the sound row was wrong.
    """

    runs: int
    hidden: tuple[float, ...]
    after: tuple[float, ...]
    wrong: int

    @property
    def ok(self) -> bool:
        return not self.wrong

    def headline(self) -> str:
        return (f"a row of −inf gives {self.hidden[0]:g}; the sound row after it was wrong in {self.wrong} of "
                f"{self.runs} runs")  # fmt: skip

    def tables(self) -> tuple[Table, ...]:
        rows = [("−inf throughout", "NaN", _digits(self.hidden)),
                ("1, 2, 3, 4", _digits(softmax(SCORES[1])), _digits(self.after) or "the same")]  # fmt: skip
        return (Table("softmax of two rows", ("row", "by definition", "seen"), rows),)


def leftovers(runs: int = 20) -> Leftovers:
    """Take the softmax of a hidden and a sound row, with other numbers in the memory each time."""
    from mindspore import Tensor, ops

    right, generator = softmax(SCORES[1]), np.random.default_rng(0)
    hidden, wrong = np.zeros(4), []
    for _ in range(runs):
        for _ in range(3):  # something for the memory to hold
            (Tensor(generator.standard_normal(SCORES.size).astype(np.float32)) * 1.0).asnumpy()
        hidden, after = ops.softmax(Tensor(SCORES), -1).asnumpy()
        if not np.abs(after - right).max() < LIMIT:
            wrong.append(after)
    return Leftovers(runs, tuple(map(float, hidden)), tuple(map(float, wrong[0])) if wrong else (), len(wrong))


def _digits(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


def softmax(row: np.ndarray) -> np.ndarray:
    """By definition."""
    powers = np.exp(row - row.max())
    return powers / powers.sum()
