"""Small cells in which a value stops being finite, each in its own way; what to practise the finder on.

python -m mindport.debug.cases            runs the finder on all of them
python -m mindport.debug.cases exp        on one; set a breakpoint in its `construct` first
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

from mindport.debug.nonfinite import NonFinite, find_nonfinite
from mindport.debug.spoil import spoil
from mindport.errors import UsageError
from mindport.results import Property, Result, verdict
from mindport.tables import Table

BATCH, TOKENS, WIDTH = 2, 5, 8
PADDED = 2  # tokens at the left end of the second row


class Attention(nn.Cell):
    """One causal head: (B, T, d) and 1 for real tokens (B, T) → (B, T, d)."""

    def __init__(self, fill: float, scale: float, dtype: Any) -> None:
        super().__init__()
        self.q, self.k, self.v = (Linear(dtype, seed) for seed in (1, 2, 3))
        self.future = Tensor(np.triu(np.ones((TOKENS, TOKENS), np.bool_), 1))
        self.fill, self.scale = fill, scale

    def construct(self, x: Tensor, real: Tensor) -> Tensor:
        scores = ops.matmul(self.q(x) * self.scale, self.k(x).swapaxes(1, 2))  # (B, T, T)
        hidden = self.future.logical_or(real.expand_dims(1) == 0)
        weights = ops.softmax(scores.masked_fill(hidden, self.fill), -1)
        return ops.matmul(weights, self.v(x))


class SiLU(nn.Cell):
    """x · eˣ / (1 + eˣ), as one writes it down."""

    def construct(self, x: Tensor) -> Tensor:
        e = ops.exp(x)
        return x * e / (1 + e)


class RMSNorm(nn.Cell):
    """x / √mean(x²), without an epsilon."""

    def construct(self, x: Tensor) -> Tensor:
        square = (x * x).mean(-1, keep_dims=True)
        return x / ops.sqrt(square)


class Energy(nn.Cell):
    """Σx², in the type of x."""

    def construct(self, x: Tensor) -> Tensor:
        return (x * x).sum(-1)


class Distance(nn.Cell):
    """√Σ(x − centre)²: its slope at the centre is infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.centre = Parameter(Tensor(np.zeros(WIDTH, np.float32)), name="centre")

    def construct(self, x: Tensor) -> Tensor:
        square = ((x - self.centre) ** 2).sum(-1)
        return ops.sqrt(square)


class Scaled(nn.Cell):
    """What a loss scale does: the output, times a number, and that number times every gradient."""

    def construct(self, x: Tensor) -> Tensor:
        wide = x.astype(ms.float32)
        return wide * 1e6


class Likelihood(nn.Cell):
    """Mean −log p of a class, from probabilities."""

    def construct(self, probabilities: Tensor, labels: Tensor) -> Tensor:
        chosen = ops.gather_elements(probabilities, 1, labels.expand_dims(1))
        return -ops.log(chosen).mean()


class Linear(nn.Cell):
    """x Wᵀ."""

    def __init__(self, dtype: Any, seed: int) -> None:
        super().__init__()
        noise = np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)).astype(np.float32)
        self.weight = Parameter(Tensor(noise).astype(dtype), name="weight")

    def construct(self, x: Tensor) -> Tensor:
        return ops.matmul(x, self.weight.T)


class Net(nn.Cell):
    """before → the part with the fault → after: something sound on both sides."""

    def __init__(self, part: nn.Cell, dtype: Any = ms.float32, before: bool = True, after: bool = True) -> None:
        super().__init__()
        self.before = Linear(dtype, 4) if before else nn.Identity()
        self.part = part
        self.after = Linear(dtype, 5) if after else nn.Identity()

    def construct(self, x: Tensor, *more: Tensor) -> Tensor:
        return self.after(self.part(self.before(x), *more))


@dataclass(frozen=True)
class Case:
    """One way to lose a value.

    Attributes:
        name, what: of the case.
        build: a cell and what it is called with.
        phase, module, cause: what the finder should say.
        hidden: whether a device may hide it.
    """

    name: str
    what: str
    build: Callable[[], tuple[nn.Cell, tuple[Any, ...]]]
    phase: str
    module: str
    cause: str
    hidden: bool = False

    def find(self) -> NonFinite:
        net, inputs = self.build()
        return find_nonfinite(net, *inputs, real=inputs[1] if self.cause == "masked row" else None)

    def agrees(self, found: NonFinite) -> bool:
        """Phase, module and cause; what a device may hide it may also show."""
        same = (found.phase, found.module, found.cause) == (self.phase, self.module, self.cause)
        return same and found.hidden <= self.hidden


@dataclass(frozen=True)
class CaseReport(Result):
    """Every case, and what the finder said of it."""

    cases: tuple[Case, ...]
    found: tuple[NonFinite, ...]

    @property
    def ok(self) -> bool:
        return all(case.agrees(found) for case, found in zip(self.cases, self.found, strict=True))

    def headline(self) -> str:
        right = sum(case.agrees(found) for case, found in zip(self.cases, self.found, strict=True))
        return f"{right} of {len(self.cases)} planted cases are named: phase, module and cause"

    def tables(self) -> tuple[Table, ...]:
        rows = [(c.name, c.what, f.phase, f.module, f.cause + " (hidden)" * f.hidden, f.code,
                 "pass" if c.agrees(f) else "failed") for c, f in zip(self.cases, self.found, strict=True)]  # fmt: skip
        columns = ("case", "what was planted", "phase", "module", "cause", "at", "state")
        return (Table("cases of values that are not finite", columns, rows),)

    def properties(self) -> tuple[Property, ...]:
        how = f"{len(self.cases)} small cells, each with one way to lose a value"
        return (verdict("a value that is not finite is traced to its module and cause", self.ok, how, self.headline(),
                        ms.get_context("device_target")),)  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        rows = [f.as_dict() for f in self.found]
        names = [case.name for case in self.cases]
        return {"ok": self.ok, "headline": self.headline(), "found": dict(zip(names, rows, strict=True))}


def run_cases() -> CaseReport:
    """The finder on every case."""
    return CaseReport(tuple(CASES.values()), tuple(case.find() for case in CASES.values()))


def case(name: str) -> Case:
    """A case by its name.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in CASES:
        raise UsageError("there is no such case", got=name, expected=", ".join(CASES))
    return CASES[name]


def x(scale: float = 1.0, dtype: Any = ms.float32, *, zero_row: bool = False) -> Tensor:
    """Seeded noise (B, T, d)."""
    noise = scale * np.random.default_rng(0).standard_normal((BATCH, TOKENS, WIDTH)).astype(np.float32)
    noise[1, 2] *= not zero_row
    return Tensor(noise).astype(dtype)


def real() -> Tensor:
    """(B, T): the second row is padded on the left, as for generation."""
    mask = np.ones((BATCH, TOKENS), np.int32)
    mask[1, :PADDED] = 0
    return Tensor(mask)


def _attention(fill: float, dtype: Any, scale: float = WIDTH**-0.5) -> Callable[[], tuple[nn.Cell, tuple[Any, ...]]]:
    return lambda: (Net(Attention(fill, scale, dtype), dtype), (x(dtype=dtype), real()))


def _likelihood() -> tuple[nn.Cell, tuple[Any, ...]]:
    probabilities = Tensor(np.eye(4, dtype=np.float32))
    return Net(Likelihood(), before=False, after=False), (probabilities, Tensor([0, 1, 2, 0], ms.int32))


def _spoiled() -> tuple[nn.Cell, tuple[Any, ...]]:
    net = Net(nn.Identity())
    spoil(net.after, np.inf)
    return net, (x(),)


def _came_in() -> tuple[nn.Cell, tuple[Any, ...]]:
    values = x().asnumpy().copy()
    values[0, 3, 1] = np.nan
    return Net(nn.Identity()), (Tensor(values),)


CASES = {
    case.name: case
    for case in (
        Case("masked, float16", "a left-padded batch, scores filled with −inf", _attention(-np.inf, ms.float16),
             "forward", "part", "masked row"),
        Case("masked, float32", "the same in float32: zeros here, NaN elsewhere", _attention(-np.inf, ms.float32),
             "forward", "part", "masked row", hidden=True),
        Case("masked with −1e9", "float16 has no −1e9: it is −inf", _attention(-1e9, ms.float16),
             "forward", "part", "masked row"),
        Case("scores", "q kᵀ in float16, not scaled", _attention(-6e4, ms.float16, scale=2e3),
             "forward", "part", "overflow"),
        Case("exp", "a SiLU written down, in float16", lambda: (Net(SiLU(), ms.float16), (x(6, ms.float16),)),
             "forward", "part", "overflow"),
        Case("square", "a sum of squares in float16",
             lambda: (Net(Energy(), ms.float16, after=False), (x(50, ms.float16),)), "forward", "part", "overflow"),
        Case("log", "−log p where p is 0", _likelihood, "forward", "part", "logarithm of zero"),
        Case("norm", "a norm without epsilon, of a row of zeros",
             lambda: (Net(RMSNorm()), (x(zero_row=True),)), "forward", "part", "division by zero"),
        Case("slope", "√0 is 0, its slope is not finite",
             lambda: (Net(Distance(), before=False, after=False), (x(zero_row=True),)), "backward", "part",
             "infinite slope"),
        Case("scale", "a loss scale beyond what a gradient in float16 holds",
             lambda: (Net(Scaled(), ms.float16, after=False), (x(dtype=ms.float16),)), "backward", "part", "overflow"),
        Case("weight", "one entry of a weight is +inf", _spoiled, "forward", "after", "weight"),
        Case("input", "NaN in the data", _came_in, "forward", "the input", "input"),
    )
}  # fmt: skip


def main(arguments: list[str]) -> int:
    ms.set_context(mode=ms.PYNATIVE_MODE)
    result = case(arguments[0]).find() if arguments else run_cases()
    print(result.text())
    return 0 if result.ok else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
