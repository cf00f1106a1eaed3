"""The first wrong row, and what it says about where the fault is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mindport.tracing.comparison import Divergence, Row
from mindport.tracing.recorder import ROOT
from mindport.tracing.rows import module


def first_forward(rows: Sequence[Row], classes: tuple[Mapping[str, Any], Mapping[str, Any]]) -> Divergence | None:
    """The first wrong value of the forward pass.

    Args:
        rows: in order of execution.
        classes: the class of each module, in A and in B.
    """
    row = next((row for row in rows if row.kind in ("in", "out") and row.state != "pass"), None)
    return None if row is None else _divergence(row, _forward(row, classes))


def first_backward(rows: Sequence[Row]) -> Divergence | None:
    """The first wrong gradient, in the order in which they arrived; those by parameters after those by outputs."""
    row = next((row for row in rows if row.kind in ("back", "grad") and row.state != "pass"), None)
    return None if row is None else _divergence(row, _backward(row, rows))


def _divergence(row: Row, says: str) -> Divergence:
    details = [says, row.note or _place(row), _course(row)]
    return Divergence(row.name, row.relative, row.limit, "; ".join(filter(None, details)))


def _forward(row: Row, classes: tuple[Mapping[str, Any], Mapping[str, Any]]) -> str:
    name = module(row.a)
    if row.kind == "in":
        if name == ROOT:
            return "the two were not given the same input"
        parent = name.rpartition(".")[0] or "the module itself"
        return f"all that was compared before it agrees, so it is the code of {parent} before it calls {name}"
    kinds = [known.get(module(path)) for known, path in zip(classes, (row.a, row.b), strict=True)]
    what = f" ({kinds[0]} beside {kinds[1]})" if all(kinds) else ""
    if row.given is None:
        return f"the module{what}, or what it is given, which is not in both traces"
    return f"the module itself{what}: what it is given agrees"


def _backward(row: Row, rows: Sequence[Row]) -> str:
    if row.kind == "back":
        return f"the gradient that arrives at the output of {module(row.a)}: the backward of what comes after it"
    if any(other.kind == "back" for other in rows):
        return "every gradient by an output agrees, so it is the module's own backward"
    return "the gradient of a parameter"


def _place(row: Row) -> str:
    """The worst element on both sides."""
    return f"at {row.apart.at}: {row.values[0]:.6g} in A, {row.values[1]:.6g} in B" if row.apart.at else ""


def _course(row: Row) -> str:
    """What the error's course over the positions shows."""
    if len(row.apart.positions) < 2:
        return ""
    first, *_, last = (error <= row.limit for error in row.apart.positions)
    if first and not last:
        return "right at position 0 and wrong later"
    return "wrong at position 0 and right at the last" if last and not first else ""
