"""Dropout by a counter: the mask is a hash of where an element is, not of what was drawn before.

    kept  ⇔  hash(seed, passes, place, row, column) ≥ p         seed, passes: the state; place: which dropout of a model

So it is the same in PyNative and Graph mode, in C++ and in plain operators, and when a block is computed again for its
gradient; and who restores two numbers restores every mask to come. (MindSpore's own dropouts have a state that cannot
be read or set: `set_rng_state` leaves it, and `nn.Dropout` takes no seed once it is made.)
An array is taken as a matrix: its last axis are the columns, all others the rows. Where several processes share a
batch, or the heads of its sequences, rows are counted as one process would count them, so that its masks are theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, ops

from mindport.errors import UsageError
from mindport.model.kernels.native import Native, native
from mindport.model.kernels.selector import Kernel, select

ONE = 1 << 24  # hashes that are told apart: p is a multiple of 1 / ONE
FIRST, SECOND = (int(np.uint32(n).view(np.int32)) for n in (0x7FEB352D, 0x846CA68B))  # Wellons's lowbias32


@dataclass(frozen=True)
class Place:
    """One dropout of a model.

    Attributes:
        state: seed and passes so far, int32 (2,); shared by all places.
        number: which one it is.
        part: which part of the batch the array has, from 0: equal parts, in order.
        shares: processes that share the rows of each sequence, the first axis's.
        share: which of their equal shares of these rows, from 0.
    """

    state: Parameter
    number: int
    part: int = 0
    shares: int = 1
    share: int = 0

    @property
    def is_split(self) -> bool:
        """Whether rows begin elsewhere than at 0."""
        return self.part > 0 or self.shares > 1

    def drop(self, p: float) -> Tensor:
        """What the operators in C++ take (cpp/keep.h)."""
        return Tensor([self.number, threshold(p), self.part, self.shares, self.share], ms.int32)


def dropout(*, p: float, place: Place | None) -> Kernel:
    """0 with probability p, else x / (1 − p), in training and out of it; called as `(x)`, (…, columns) of any dtype.

    The product is one of float32, rounded to the dtype of x.

    Args:
        p: from 0 to below 1.
        place: where the random numbers come from.

    Raises:
        UsageError: p is no such probability, or there is no place.
    """
    check(p, place)
    return select("dropout", {"cpu": Cpu, "reference": Reference}, p=p, place=place)


def check(p: float, place: Place | None) -> None:
    """Stop where nothing could be drawn.

    Raises:
        UsageError: p is no probability below 1, or something is to be dropped and there is no place.
    """
    check_probability(p)
    if p > 0 and place is None:
        raise UsageError("dropout needs its random numbers", got=f"p = {p:g} and no place",
                         do="Counter(seed).place(), from mindport.model.dropout")  # fmt: skip


def check_probability(p: float) -> None:
    """Stop where nothing would be left.

    Raises:
        UsageError: p is not from 0 to below 1.
    """
    if not 0 <= p <= 1 - 1 / ONE:
        raise UsageError("this is no probability of dropping", got=p, expected="from 0 to below 1")


def threshold(p: float) -> int:
    """How many of `ONE` hashes are dropped."""
    return round(p * ONE)


class Placed(Kernel):
    """Holds the state, which is no weight: a cell that owned it would list it among the model's parameters."""

    def __init__(self, place: Place | None = None) -> None:
        super().__init__()
        self.__dict__["state"] = None if place is None else place.state


class Kept(Placed):
    """Which elements are kept, in plain operators; called as `(rows, columns, sequences)` → bool (rows, columns).

    `sequences` says how many the rows belong to; it is of interest where processes share them.
    """

    def __init__(self, p: float = 0.0, place: Place | None = None) -> None:
        super().__init__(place)
        self.is_split = place is not None and place.is_split
        self.part, self.shares, self.share = (place.part, place.shares, place.share) if place else (0, 1, 0)
        self.place = Tensor(0 if place is None else place.number, ms.int32)
        self.threshold, self.int32 = threshold(p), ms.int32
        self.xor, self.both, self.shift = ops.bitwise_xor, ops.bitwise_and, ops.bitwise_right_shift
        self.arange = ops.arange
        self.first, self.second = (Tensor(n, ms.int32) for n in (FIRST, SECOND))
        self.fifteen, self.sixteen, self.eight = (Tensor(n, ms.int32) for n in (15, 16, 8))
        # a shift to the right brings the sign with it
        self.low15, self.low16, self.low8 = (Tensor((1 << 32 - n) - 1, ms.int32) for n in (15, 16, 8))

    def construct(self, rows: int, columns: int, sequences: int = 1) -> Tensor:
        seed, passes = self.state[0], self.state[1]
        first = self.mix(passes, seed, self.place)
        second = self.mix(self.place, first, seed)
        row = self.arange(rows).astype(self.int32).reshape((rows, 1))
        row = self.among_all(row, rows, sequences) if self.is_split else row
        one = self.mix(row, first, second)
        two = self.mix(one, second, row)
        column = self.arange(columns).astype(self.int32).reshape((1, columns))
        hashed = self.mix(column, one, two)
        return self.both(self.shift(hashed, self.eight), self.low8) >= self.threshold

    def among_all(self, row: Tensor, rows: int, sequences: int) -> Tensor:
        """Rows of this process, as one process would count them."""
        if self.shares == 1:
            return row + self.part * rows
        each = max(rows // sequences, 1)  # rows of a sequence that are here
        return ((row // each + self.part * sequences) * self.shares + self.share) * each + row % each

    def mix(self, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """Two multiplications and three shifts, keyed before each multiplication; modulo 2³²."""
        x = self.xor(x, a)
        x = self.xor(x, self.both(self.shift(x, self.sixteen), self.low16)) * self.first
        x = (self.xor(x, self.both(self.shift(x, self.fifteen), self.low15)) + b) * self.second
        return self.xor(x, self.both(self.shift(x, self.sixteen), self.low16))


class Reference(Kernel):
    """The mask, and `where`."""

    def __init__(self, *, p: float, place: Place) -> None:
        super().__init__()
        self.kept, self.scale = Kept(p, place), float(np.float32(ONE / (ONE - threshold(p))))
        self.where, self.zero, self.float32 = ops.where, Tensor(np.float32(0)), ms.float32

    def construct(self, x: Tensor) -> Tensor:
        matrix = x.reshape((-1, x.shape[-1])).astype(self.float32)
        kept = self.kept(matrix.shape[0], matrix.shape[1], x.shape[0])
        return self.where(kept, matrix * self.scale, self.zero).astype(x.dtype).reshape(x.shape)


class Cpu(Native, Placed):
    """One pass over x in C++ (cpp/dropout.cc), and the same one for the gradient."""

    def __init__(self, *, p: float, place: Place) -> None:
        super().__init__(place)
        self.drop = place.drop(p)
        back = native("dropout", lambda x, *_: x)

        def gradient(x: Any, state: Any, drop: Any, y: Any, dy: Any) -> Any:
            return back(dy, state, drop), state, drop

        self.fused, self.float32 = native("dropout", lambda x, *_: x, gradient), ms.float32

    def construct(self, x: Tensor) -> Tensor:
        if x.dtype == self.float32:
            return self.fused(x, self.state, self.drop)
        return self.fused(x.astype(self.float32), self.state, self.drop).astype(x.dtype)
