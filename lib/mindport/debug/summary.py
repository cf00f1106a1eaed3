"""What is in a tensor, when the question is whether it is finite."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindport.errors import some
from mindport.tracing.recorder import leaves


@dataclass(frozen=True)
class Summary:
    """Counts of the values that are not finite, and the range of those that are.

    Attributes:
        name: what the tensor is called where it was seen.
        dtype: "float16", …
        shape: its shape.
        nan, above, below: how many are NaN, +inf, −inf.
        low, high: the smallest and largest finite value; None without any.
        rows: where values that are not finite lie, the first of them: index without the last axis; rows in which
            nothing is finite come first.
        bad_rows: in how many rows there are such values.
        full_rows: in how many rows nothing is finite.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nan: int
    above: int
    below: int
    low: float | None
    high: float | None
    rows: tuple[tuple[int, ...], ...] = ()
    bad_rows: int = 0
    full_rows: int = 0

    @property
    def finite(self) -> bool:
        return not self.nan + self.above + self.below

    @property
    def masks(self) -> bool:
        """Nothing but −inf is wrong with it, as in scores whose future is hidden: on its way to a softmax, sound."""
        return self.below > 0 and not self.nan + self.above

    @property
    def largest(self) -> float:
        """The largest finite magnitude; 0 without any."""
        return max((abs(x) for x in (self.low, self.high) if x is not None), default=0.0)

    @property
    def share(self) -> float:
        """The share of values that are not finite."""
        return (self.nan + self.above + self.below) / max(1, math.prod(self.shape))

    def cells(self) -> tuple[object, ...]:
        """Its line of a table."""
        return (self.name, self.dtype, self.shape, self.low, self.high, self.counts(), self.share)

    def counts(self) -> str:
        """What is not finite, in words."""
        kinds = ((self.nan, "NaN"), (self.above, "+inf"), (self.below, "−inf"))
        return ", ".join(f"{n:,} {kind}" for n, kind in kinds if n) or "all finite"

    def where(self) -> str:
        """The rows that hold them, in words."""
        if self.finite or len(self.shape) < 2:
            return ""
        total = math.prod(self.shape[:-1])
        places = some(map(list, self.rows), SHOWN)
        return f"{self.bad_rows:,} of {total:,} rows ({self.full_rows:,} of them whole): {places}"


COLUMNS = ("tensor", "dtype", "shape", "smallest", "largest", "not finite", "share")
KEPT, SHOWN = 256, 4  # rows that are kept, and named


def summarise(name: str, array: np.ndarray) -> Summary:
    """Look at an array of floating numbers; bfloat16 is widened exactly."""
    wide = array.astype(np.float32) if array.dtype.itemsize == 2 else array
    bad = ~np.isfinite(wide)
    good = wide[~bad]
    rows = bad.reshape(max(1, math.prod(bad.shape[:-1])), -1)
    whole = rows.all(1) & (rows.shape[1] > 0)
    hit = np.concatenate([np.flatnonzero(whole), np.flatnonzero(rows.any(1) & ~whole)])
    places = [np.unravel_index(row, bad.shape[:-1]) for row in hit[:KEPT]] if bad.ndim > 1 else []
    return Summary(
        name=name, dtype=str(array.dtype), shape=array.shape, nan=int(np.isnan(wide).sum()),
        above=int(np.isposinf(wide).sum()), below=int(np.isneginf(wide).sum()),
        low=float(good.min()) if good.size else None, high=float(good.max()) if good.size else None,
        rows=tuple(tuple(map(int, place)) for place in places), bad_rows=len(hit), full_rows=int(whole.sum()),
    )  # fmt: skip


def floating(value: Any) -> np.ndarray | None:
    """A MindSpore tensor of floating numbers as an array, of complex ones their real and imaginary parts, one after the
    other on the last axis; None for anything else, an empty one too."""
    from mindspore import Tensor

    if not isinstance(value, Tensor) or 0 in value.shape or not (value.is_floating_point() or value.is_complex()):
        return None
    array = value.asnumpy()
    return (
        np.concatenate([np.atleast_1d(part) for part in (array.real, array.imag)], -1) if value.is_complex() else array
    )


def tensors(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors in `value`, a tensor or a nest of them, each with a name."""
    from mindspore import Tensor

    return ((name + part, leaf) for part, leaf in leaves(value) if isinstance(leaf, Tensor))


def summaries(name: str, value: Any) -> tuple[Summary, ...]:
    """Every floating tensor in `value`."""
    found = ((label, floating(tensor)) for label, tensor in tensors(name, value))
    return tuple(summarise(label, array) for label, array in found if array is not None)
