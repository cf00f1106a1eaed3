"""How far two runs of one module may be apart, by the coarser precision of the two values.

Everything here is measured in the whole run, where errors add up from module to module, and relative to the largest
value of a position (or of a sample, where there are no positions). Where one side holds float64 beside its values, the
other is held to *that*, and so many times what the first one itself misses is allowed; without it, more is.

A float32 run's own error says nothing of bfloat16: where the side that is tried is the coarser one, the table alone
counts. Measured with `mindport trace` of tiny-llama and tiny-gpt2 (4 layers) in each precision, own errors of the
forward pass, the median and the largest; on the way back they are up to ten, in bfloat16 thirty times as large:

    float32     1.0e-6, 3.2e-6 · 4.5e-7, 1.0e-6
    float16     1.9e-3, 7.5e-3 · 1.0e-3, 2.1e-3
    bfloat16    1.7e-2, 5.1e-2 · 8.3e-3, 1.5e-2
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mindport.parity.limits import FLOAT32

BASE = {"float64": 1e-11, "float32": FLOAT32.cell, "float16": 4e-3, "bfloat16": 3e-2}
BLIND = 5.0  # times, where nobody knows the exact value
FARTHEST = 100.0  # times: an "exact" value that is farther off is that of another computation, say of other noise
NOTHING = 1.0  # a limit as large as the value itself


@dataclass(frozen=True)
class Limit:
    """The relative error that is allowed.

    Attributes:
        given: what the user asks for, in the place of all the rest; None for the table.
        own: so many times the reference's own error is always allowed.
    """

    given: float | None = None
    own: float = FLOAT32.own

    def of(self, reference: str, tried: str, own: float | None) -> float:
        """For a pair of values: 0 where both are whole numbers.

        Args:
            reference, tried: their dtypes.
            own: the relative error of the reference itself, None where its exact value is not known.
        """
        base = _base((reference, tried))
        if self.given is not None and base:
            return self.given
        if own is None or _base((tried,)) > _base((reference,)):
            return BLIND * base
        return max(base, self.own * own)


def is_exact(dtype: str, own: float) -> bool:
    """Whether a float64 value that is `own` from the value itself can be of the same computation."""
    return own <= FARTHEST * _base((dtype,))


def _base(dtypes: Iterable[str]) -> float:
    return max(BASE.get(dtype, 0.0) for dtype in dtypes)
