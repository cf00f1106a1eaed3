"""How far two runs of one module may be apart, by the coarser precision of the two values.

Everything here is measured in the whole run, where errors add up from module to module, and relative to the largest
value of a position (or of a sample, where there are no positions). Where one side holds float64 beside its values, the
other is held to *that*, and so many times what the first one itself misses is allowed; without it, more is.
"""

from __future__ import annotations

from dataclasses import dataclass

from mindport.parity.limits import FLOAT32

BASE = {"float64": 1e-11, "float32": FLOAT32.cell, "float16": 4e-3, "bfloat16": 3e-2}
BLIND = 5.0  # times, where nobody knows the exact value
FARTHEST = 100.0  # times: an "exact" value that is farther off is that of another computation
NOTHING = 1.0  # an error as large as the value itself


@dataclass(frozen=True)
class Limit:
    """The relative error that is allowed.

    Attributes:
        given: what the user asks for, in the place of all the rest; None for the table.
        own: so many times the reference's own error is always allowed.
    """

    given: float | None = None
    own: float = FLOAT32.own

    def of(self, dtypes: tuple[str, str], own: float | None) -> float:
        """For a pair of values: 0 where both are whole numbers.

        Args:
            dtypes: of the two.
            own: the relative error of the reference itself, None where its exact value is not known.
        """
        floats = [BASE[dtype] for dtype in dtypes if dtype in BASE]
        if not floats:
            return 0.0
        if self.given is not None:
            return self.given
        base = max(floats)
        return BLIND * base if own is None else max(base, min(self.own * own, FARTHEST * base, NOTHING))
