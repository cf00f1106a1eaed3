"""Pairs of arrays → rows: each measured, then each failure told from what it only inherits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from mindport.parity.trace import Trace
from mindport.tracing.comparison import Row, State
from mindport.tracing.distance import NOWHERE, distance, not_finite
from mindport.tracing.limits import NOTHING, Limit, is_exact
from mindport.tracing.names import Pair
from mindport.tracing.padding import Padding
from mindport.tracing.recorder import ROOT

GRADIENTS = 1e-3  # of the largest gradient: a smaller one is held to that, for what is left of it may be rounding
BLURRED = "shows nothing: in this precision the reference's own error is of the value's size"
ESTRANGED = "the float64 beside it is of another computation (noise? a cast?), and was left out"
TENSOR, CALL = re.compile(r"\[.*\]$"), re.compile(r"#\d+$")


def measure(a: Trace, b: Trace, pairs: Sequence[Pair], limit: Limit, padding: Padding) -> tuple[Row, ...]:
    """A row for each pair, in the order given."""
    sizes = [np.abs(a[one.names[0]].astype(np.float64)).max(initial=0.0) for one in pairs if one.kind == "grad"]
    floor = GRADIENTS * max((float(size) for size in sizes if np.isfinite(size)), default=0.0)
    return _with_states([_row(a, b, one, limit, padding, floor) for one in pairs])


def call(path: str) -> str:
    """The path without the part that says which of several tensors."""
    return TENSOR.sub("", path)


def module(path: str) -> str:
    """The module's own path, whichever call it was."""
    return CALL.sub("", call(path))


def _row(a: Trace, b: Trace, one: Pair, limit: Limit, padding: Padding, floor: float) -> Row:
    x, y = _laid_out(a[one.names[0]], one), b[one.names[1]]
    if x.shape != y.shape:
        return _misshapen(one, x, y)
    real, whole = padding.of(x.shape), floor if one.kind == "grad" else None
    measured = partial(distance, sequence=padding.is_sequence(x.shape), real=real, whole=whole)
    exact, reference, tried = _three(a, b, one, x, y)
    own = None if exact is None else measured(reference, exact).relative
    estranged = own is not None and not is_exact(reference.dtype.name, own)
    if estranged:
        exact = own = None
    apart = measured(tried, reference if exact is None else exact)
    blurred = own is not None and own * limit.own >= NOTHING
    return Row(
        kind=one.kind, a=one.a, b=one.b, shape=x.shape, dtypes=(x.dtype.name, y.dtype.name), apart=apart,
        limit=limit.of(reference.dtype.name, tried.dtype.name, own), own=own, given=None,
        values=(float(x[apart.at]), float(y[apart.at])) if x.size else (0.0, 0.0), state="pass",
        note=not_finite(x, y, real) or ESTRANGED * estranged or BLURRED * blurred,
    )  # fmt: skip


def _three(
    a: Trace, b: Trace, one: Pair, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """(the exact value or None, the side that holds it, the other): A, if both do."""
    exact = _exact(a, one.names[0], y)
    if exact is not None:
        return _laid_out(exact, one), x, y
    exact = _exact(b, one.names[1], x)
    return (None, x, y) if exact is None else (exact, y, x)


def _exact(trace: Trace, name: str, other: np.ndarray) -> np.ndarray | None:
    """float64 beside the value, or the value itself, where the other side has less."""
    if trace[name].dtype == np.float64 and other.dtype != np.float64:
        return trace[name]
    return trace.exact(name)


def _laid_out(x: np.ndarray, one: Pair) -> np.ndarray:
    return x.transpose(one.axes) if one.axes and len(one.axes) == x.ndim else x


def _misshapen(one: Pair, x: np.ndarray, y: np.ndarray) -> Row:
    note = f"shape {x.shape} in A, {y.shape} in B"
    if sorted(x.shape) == sorted(y.shape):
        note += f": another layout? --map '{one.a}={one.b}@NCHW->NHWC' says which"
    return Row(kind=one.kind, a=one.a, b=one.b, shape=x.shape, dtypes=(x.dtype.name, y.dtype.name), apart=NOWHERE,
               limit=0.0, own=None, given=None, values=(0.0, 0.0), state="failed", note=note)  # fmt: skip


def _with_states(rows: Sequence[Row]) -> tuple[Row, ...]:
    """What is wrong by itself, and what only inherits it."""
    given: dict[str, float] = {}
    done: list[Row] = []
    for row in rows:
        if row.kind == "in":
            given[call(row.a)] = max(given.get(call(row.a), 0.0), row.relative)
        elif row.kind == "out":
            row = replace(row, given=given.get(call(row.a)))
        done.append(replace(row, state=_state(row, done)))
    return tuple(done)


def _state(row: Row, before: Sequence[Row]) -> State:
    if row.relative <= row.limit:
        return "pass"
    wrong = [other for other in before if other.state != "pass"]
    if row.kind == "out":
        wrong = [other for other in wrong if _feeds(other, row)]
    return "inherited" if wrong else "failed"


def _feeds(other: Row, row: Row) -> bool:
    """Whether a wrong value is what this module was given, or was made inside it."""
    if other.kind == "in" and call(other.a) == call(row.a):
        return True
    inside = module(row.a) == ROOT or module(other.a).startswith(f"{module(row.a)}.")
    return other.kind in ("in", "out") and inside
