"""Why a value is not finite: what the operator was given decides."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.debug.expressions import Culprit
from mindport.debug.summary import Summary

LARGEST = {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.40e38, "float64": 1.80e308}

TOO_LARGE = "no wider type helps: look for the operand that is far too large, a weight or a scale"
DO = {
    "overflow": "compute this in float32 (x.astype(ms.float32)) and narrow the result, or scale its input down",
    "masked row": "let padding see itself, or fill with the lowest finite number instead of −inf, and leave padding "
    "out of the loss",
    "division by zero": "add an epsilon to the divisor, inside the root if it is a norm",
    "logarithm of zero": "take log_softmax of the logits instead, or clip the probability away from 0",
    "root of a negative number": "the difference below it lost its sign to rounding: clip it at 0",
    "inf − inf": "look for the infinity: it came in, and was made before",
    "infinite slope": "the function is finite there, its slope is not: add an epsilon below the root or the logarithm; "
    "a `where` after it does not help, since 0 · inf is NaN",
    "weight": "load it again, from a checkpoint before the step that spoiled it; then look at that step's gradients",
    "input": "look at what makes the batch: nothing in the model has run yet",
    "unknown": "set a breakpoint on the line and look at its operands",
}


@dataclass(frozen=True)
class Reason:
    """A kind, one of `DO`, and the evidence for it in one sentence.

    Attributes:
        kind, says: the kind and the evidence.
        instead: the next action, where it is not that of the kind.
    """

    kind: str
    says: str
    instead: str = ""

    @property
    def do(self) -> str:
        return self.instead or DO[self.kind]


def why(found: Culprit) -> Reason:
    """The reason of a value that is not finite, from the operands of the operator that made it."""
    for judge in (_masked, _divided, _outside, _infinite, _overflow):
        if cause := judge(found):
            return cause
    return Reason("unknown", f"`{found.code}` makes {found.value.counts()} from finite operands")


def overflow(value: Summary, given: tuple[Summary, ...]) -> Reason | None:
    """What can be said without the line: float16 and an infinity, or float16 and large operands."""
    if value.dtype != "float16" or not (value.above or value.below or value.nan):
        return None
    largest = max((each.largest for each in given), default=0.0)
    return Reason("overflow", f"float16 ends at {LARGEST['float16']:.0f}; the largest number given was {largest:.4g}")


def _masked(found: Culprit) -> Reason | None:
    """A softmax, or its parts, over a row in which everything is hidden: 0 / 0, or −inf − (−inf)."""
    rows = [each for each in found.operands if each.masks and each.full_rows and len(each.shape) > 1]
    if not rows or not (found.value.nan or "softmax" in found.operator.lower()):
        return None
    return Reason("masked row", f"{rows[0].full_rows:,} rows of `{rows[0].name}` are −inf throughout, and nothing is "
                 "left to divide by")  # fmt: skip


def _divided(found: Culprit) -> Reason | None:
    divisor = found.operands[-1] if found.operator in ("/", "div", "divide", "true_divide") else None
    if found.operator in ("reciprocal", "rsqrt"):
        divisor = found.operands[-1]
    if divisor is None or divisor.low is None or not divisor.low <= 0 <= (divisor.high or 0.0):
        return None
    return Reason("division by zero", f"`{divisor.name}` goes down to {divisor.low:.3g}")


def _outside(found: Culprit) -> Reason | None:
    """Arguments that a function has no value for."""
    low = min((each.low for each in found.operands if each.low is not None), default=1.0)
    if found.operator in ("log", "log2", "log10") and low <= 0:
        return Reason("logarithm of zero", f"its argument goes down to {low:.3g}")
    if found.operator in ("sqrt", "pow", "**") and found.value.nan and low < 0:
        return Reason("root of a negative number", f"its argument goes down to {low:.3g}")
    return None


def _infinite(found: Culprit) -> Reason | None:
    given = [each for each in found.operands if not each.finite]
    if not given:
        return None
    return Reason("inf − inf", f"`{given[0].name}` came with {given[0].counts()}")


def _overflow(found: Culprit) -> Reason | None:
    """Too large for the type; NaN alone is one too when the same in float32 is finite (a sum inside overflowed)."""
    value, wide = found.value, found.in_float32
    healed = f", and in float32 the result would go up to {wide.largest:.4g}" if wide and wide.finite else ""
    if not value.above and not value.below and not healed:
        return None
    largest = max((each.largest for each in found.operands), default=0.0)
    says = f"{value.dtype} ends at {LARGEST[value.dtype]:.5g}; its operands go up to {largest:.4g}{healed}"
    return Reason("overflow", says, "" if value.dtype == "float16" else TOO_LARGE)
