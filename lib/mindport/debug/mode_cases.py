"""Cells that do one thing which PyNative and Graph mode may do otherwise, and what each said when this was written."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops

FACTOR = 2.0  # what `Global` reads


class Attribute(nn.Cell):
    """A Python number that somebody changes between two calls."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0

    def construct(self, x: Tensor) -> Tensor:
        return x * self.factor


class Held(nn.Cell):
    """The same number in a Parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = Parameter(Tensor(2.0), name="factor", requires_grad=False)

    def construct(self, x: Tensor) -> Tensor:
        return x * self.factor


class Remembers(nn.Cell):
    """A list that collects what went by."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def construct(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return x + len(self.seen)


class Late(nn.Cell):
    """A cell that is made in `construct`."""

    def construct(self, x: Tensor) -> Tensor:
        self.inner = nn.ReLU()
        return self.inner(x)


class Branch(nn.Cell):
    """Control flow on the value of a tensor."""

    def construct(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        return x * 3


class Random(nn.Cell):
    """A number from NumPy, in `construct`."""

    def construct(self, x: Tensor) -> Tensor:
        return x * np.random.rand()


class Global(nn.Cell):
    """A number of the module."""

    def construct(self, x: Tensor) -> Tensor:
        return x * FACTOR


class Tries(nn.Cell):
    """An exception that is handled."""

    def construct(self, x: Tensor) -> Tensor:
        try:
            return x.reshape((3, 3))
        except ValueError:
            return x


class Repeat(nn.Cell):
    """A loop as often as a tensor says."""

    def construct(self, x: Tensor, times: Tensor) -> Tensor:
        for _ in range(times):
            x = x + 1
        return x


class ToNumpy(nn.Cell):
    """A tensor that goes through NumPy."""

    def construct(self, x: Tensor) -> Tensor:
        return x * Tensor(x.asnumpy().sum())


class Prints(nn.Cell):
    """A value on the way, and a second one."""

    def construct(self, x: Tensor) -> Tensor:
        print("first", x.sum())
        y = x * 2
        print("second", y.sum())
        return y


class SwapTwo(nn.Cell):
    """The axes as PyTorch's transpose takes them."""

    def construct(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class Permute(nn.Cell):
    """All axes."""

    def construct(self, x: Tensor) -> Tensor:
        return x.transpose((0, 2, 1, 3))


class SwapAxes(nn.Cell):
    """Two axes, by the name that says so."""

    def construct(self, x: Tensor) -> Tensor:
        return x.swapaxes(1, 2)


class MintTranspose(nn.Cell):
    """The interface that copies PyTorch's."""

    def construct(self, x: Tensor) -> Tensor:
        return mint.transpose(x, 1, 2)


class View(nn.Cell):
    """A view of a transposed tensor, which PyTorch refuses."""

    def construct(self, x: Tensor) -> Tensor:
        return x.swapaxes(1, 2).view(2, -1)


class Mixed(nn.Cell):
    """float16 beside float32."""

    def construct(self, x: Tensor) -> Tensor:
        return ops.cat((x.astype(ms.float16), x))


@dataclass(frozen=True)
class Difference:
    """One cell, what it shows in each mode, and what to write instead.

    Attributes:
        name, what: of the case.
        run: calls a new cell and says in a word what came of it.
        expected: what PyNative and Graph said when this was written (MindSpore 2.10.0, CPU); an error by its type.
        write: what is the same in both.
    """

    name: str
    what: str
    run: Callable[[], str]
    expected: tuple[str, str]
    write: str


ONE = np.ones((2, 2), np.float32)
FOUR = Tensor(np.zeros((2, 3, 4, 5), np.float32))


def _changed(cell: nn.Cell, change: Callable[[], Any]) -> str:
    """What a cell answers before and after something it uses has changed."""
    before = _entry(cell(Tensor(ONE)))
    change()
    return f"{before}, then {_entry(cell(Tensor(ONE)))}"


def _attribute() -> str:
    cell = Attribute()
    return _changed(cell, lambda: setattr(cell, "factor", 5.0))


def _held() -> str:
    cell = Held()
    return _changed(cell, lambda: cell.factor.set_data(Tensor(5.0)))


def _remembers() -> str:
    cell = Remembers()
    return f"{', '.join(_entry(cell(Tensor(ONE))) for _ in range(3))}; {len(cell.seen)} kept"


def _branch() -> str:
    cell = Branch()
    return f"{_entry(cell(Tensor(ONE)))} and {_entry(cell(Tensor(-ONE)))}"


def _random() -> str:
    cell = Random()
    return "a new number each time" if _entry(cell(Tensor(ONE))) != _entry(cell(Tensor(ONE))) else "the same each time"


def _global() -> str:
    global FACTOR
    cell, before = Global(), FACTOR
    try:
        return _changed(cell, lambda: globals().update(FACTOR=5.0))
    finally:
        FACTOR = before


def _prints() -> str:
    """What comes out, from Python or from C++."""
    said = io.StringIO()
    with tempfile.TemporaryFile("w+") as file, redirected(1, file.fileno()), redirect_stdout(said):
        Prints()(Tensor(ONE)).asnumpy()
        file.seek(0)
        return " ".join((said.getvalue() + file.read()).split())


@contextmanager
def redirected(number: int, other: int) -> Iterator[None]:
    """What C++ writes to a file descriptor goes to another one."""
    kept = os.dup(number)
    os.dup2(other, number)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


def _shape(cell: type[nn.Cell]) -> Callable[[], str]:
    return lambda: str(tuple(cell()(FOUR).shape))


def _view() -> str:
    values = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    right = np.array_equal(View()(Tensor(values)).asnumpy(), values.swapaxes(1, 2).reshape(2, -1))
    return "equal to reshape" if right else "other numbers"


def _mixed() -> str:
    return Mixed()(Tensor(ONE)).asnumpy().dtype.name


def _entry(tensor: Tensor) -> str:
    return f"{float(tensor.asnumpy().ravel()[0]):g}"


def _value(cell: type[nn.Cell], *more: Tensor) -> Callable[[], str]:
    return lambda: _entry(cell()(Tensor(ONE), *more))


DIFFERENCES = {
    case.name: case
    for case in (
        Difference("attribute", "a Python attribute, changed from 2 to 5 after the first call", _attribute,
                   ("2, then 5", "2, then 2"), "a Parameter, or an input"),
        Difference("global", "a global number, changed from 2 to 5", _global, ("2, then 5", "2, then 2"), "an input"),
        Difference("parameter", "the same number in a Parameter", _held, ("2, then 5", "2, then 5"), "this"),
        Difference("list", "self.seen.append(x); x + len(self.seen), three times", _remembers,
                   ("2, 3, 4; 3 kept", "1, 1, 1; 0 kept"), "return what is to be kept"),
        Difference("random", "np.random.rand()", _random, ("a new number each time", "the same each time"),
                   "draw outside, hand it in; or ops.rand"),
        Difference("late", "a cell made in construct", _value(Late), ("1", "TypeError"), "make it in __init__"),
        Difference("branch", "if x.sum() > 0", _branch, ("2 and -3", "2 and -3"), "this; ops.where inside a step"),
        Difference("repeat", "for _ in range(a tensor)", _value(Repeat, Tensor(3)), ("4", "TypeError"),
                   "a number known when it is compiled, or while"),
        Difference("try", "try … except", _value(Tries), ("1", "RuntimeError"), "check shapes beforehand"),
        Difference("numpy", "x.asnumpy() on the way", _value(ToNumpy), ("4", "4"),
                   "tensors: no gradient passes NumPy, and no NPU stays busy"),
        Difference("print", "print(x.sum()), twice", _prints, ("first 4.0 second 8.0", "first 4 second 8"),
                   "this; it prints at each call, and waits for the value"),
        Difference("transpose(1, 2)", "x.transpose(1, 2), PyTorch's form", _shape(SwapTwo),
                   ("(2, 4, 3, 5)", "ValueError"), "x.swapaxes(1, 2)"),
        Difference("transpose", "x.transpose((0, 2, 1, 3)), all axes", _shape(Permute),
                   ("(2, 4, 3, 5)", "(2, 4, 3, 5)"), "this"),
        Difference("swapaxes", "x.swapaxes(1, 2)", _shape(SwapAxes), ("(2, 4, 3, 5)", "(2, 4, 3, 5)"), "this"),
        Difference("mint.transpose", "mint.transpose(x, 1, 2)", _shape(MintTranspose),
                   ("(2, 4, 3, 5)", "(2, 4, 3, 5)"), "this"),
        Difference("view", "x.swapaxes(1, 2).view(2, -1), which PyTorch refuses", _view,
                   ("equal to reshape", "equal to reshape"), "reshape, which means the same everywhere"),
        Difference("mixed", "ops.cat of float16 and float32", _mixed, ("RuntimeError", "float32"),
                   "cast first"),
    )
}  # fmt: skip
