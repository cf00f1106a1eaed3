"""Which numbers a field takes: written beside the field, checked as the file is read, shown in the message."""

from __future__ import annotations

from dataclasses import dataclass

WHOLE, SMALLEST, LARGEST = 2**31, 2.0**-126, 2.0**128  # what int32 and float32 end below, and where float32 begins


def is_kept(number: float) -> bool:
    """Whether a device keeps the number: int32, or float32 at full precision; NaN and infinities it does not."""
    if isinstance(number, int):
        return abs(number) < WHOLE
    return number == 0 or SMALLEST <= abs(number) < LARGEST


@dataclass(frozen=True)
class Range:
    """The numbers within some bounds, of those that a device keeps.

    Attributes:
        at_least, above: lower bounds, one of them at most.
        at_most, below: upper bounds, one of them at most.
    """

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def holds(self, number: float) -> bool:
        """Whether the number lies within the bounds, and a device keeps it."""
        return is_kept(number) and not (
            (self.at_least is not None and number < self.at_least)
            or (self.above is not None and number <= self.above)
            or (self.at_most is not None and number > self.at_most)
            or (self.below is not None and number >= self.below)
        )

    def __str__(self) -> str:
        named = {"at least": self.at_least, "above": self.above, "at most": self.at_most, "below": self.below}
        return ", ".join(f"{word} {bound}" for word, bound in named.items() if bound is not None)


FINITE = Range()
NOT_NEGATIVE, POSITIVE = Range(at_least=0), Range(above=0)
COUNT = Range(at_least=1)
SHARE = Range(at_least=0, below=1)
SEED = Range(at_least=0, below=2**31)
