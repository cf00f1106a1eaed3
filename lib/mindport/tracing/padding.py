"""Which positions of a sequence are real: what stands under padding is nobody's business."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mindport.errors import UsageError
from mindport.parity.trace import Trace
from mindport.tracing.names import split

IDS, MASK = "ids", "[attention_mask]"
PADDED = (2, 3)  # dimensions of values that have (B, T) in front; with four, (B, heads, …) may look the same


@dataclass(frozen=True)
class Padding:
    """The sequence of a trace.

    Attributes:
        shape: (B, T), None when the input is no sequence.
        real: (B, T) false where there is padding; None when there is none.
        says: what is left out, and by which array.
    """

    shape: tuple[int, ...] | None = None
    real: np.ndarray | None = None
    says: str = ""

    def is_sequence(self, shape: tuple[int, ...]) -> bool:
        """Whether a value has features at each of the B·T positions."""
        return len(shape) > 2 and shape[:2] == self.shape

    def of(self, shape: tuple[int, ...]) -> np.ndarray | None:
        """The mask, where a value has positions."""
        return self.real if len(shape) in PADDED and shape[:2] == self.shape else None


def find_padding(trace: Trace, given: str | None = None) -> Padding:
    """The padding that an argument named attention_mask says, or the array that is given.

    Args:
        trace: the reference.
        given: the name of an array that is 0 where there is padding; `name=N`: where it is N.

    Raises:
        UsageError: there is no such array of shape (B, T).
    """
    inputs = {name: x for name, x in trace.arrays.items() if _is_input(name) and x.ndim == 2}
    if given is not None:
        name, _, token = given.rpartition("=") if given not in trace else (given, "", "0")
        if name not in trace or trace[name].ndim != 2 or not token.lstrip("-").isdigit():
            raise UsageError("A has no such array of shape (B, T)", where="padding", got=given,
                             expected=", ".join(inputs) or None, do="name an array of A, or ARRAY=N")  # fmt: skip
        return _padding(name, trace[name] != int(token), token)
    for name, x in inputs.items():
        if name.endswith(MASK) and np.isin(x, (0, 1)).all():
            return _padding(name, x != 0, "0")
    return Padding(next((x.shape for x in inputs.values() if x.dtype.kind in "iu"), None))


def _is_input(name: str) -> bool:
    return name == IDS or (split(name)[0] == "in" and split(name)[1].startswith("."))


def _padding(name: str, real: np.ndarray, token: str) -> Padding:
    out = int((~real).sum())
    says = f"{out} of {real.size} positions, where {name} is {token}, in values of shape {real.shape} and one axis more"
    return Padding(real.shape, real if out else None, says if out else "")
