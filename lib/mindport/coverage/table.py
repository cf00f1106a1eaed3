"""The table of operators is data: `operators/*.yaml`, one file a group, and `frame.yaml` for what is no operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mindport.results import Result
from mindport.tables import Table

FOLDER = Path(__file__).parent
SHORT = {"F": "torch.nn.functional", "nn": "torch.nn", "init": "torch.nn.init", "x": "torch.Tensor"}
METHOD = "torch.Tensor."
_ROOT = r"\b((?:ops|mint|nn|ms|experimental|init)(?:\.\w+)+)"
_CALLED = (
    (re.compile(_ROOT + r"\("), ""),
    (re.compile(r"[\w\])]\.([A-Za-z]\w*)\("), "Tensor."),
    (re.compile(_ROOT), ""),
    (re.compile(r"[\w\])]\.([A-Za-z]\w*)"), "Tensor."),
)


@dataclass(frozen=True)
class Operator:
    """One row: the same computation in both languages, as expressions over the arrays of `inputs`.

    Attributes:
        name: what it is called in a report.
        group: the file that it stands in.
        names: every torch name of it, in full.
        torch: the true value.
        ms: the counterpart; empty where MindSpore has none.
        instead: what to write where there is no counterpart, or no kernel.
        naive: a translation that looks right and is not.
        trap: what to mind.
        tolerance: of the value, relative to the largest one; random numbers are held to a statistic.
    """

    name: str
    group: str
    names: tuple[str, ...]
    torch: str
    ms: str = ""
    instead: str = ""
    naive: str = ""
    trap: str = ""
    tolerance: float = 1e-5

    @property
    def counterpart(self) -> str:
        """The name in MindSpore, read off the expression: `ops.softmax`, `Tensor.view`; – for none."""
        return called(self.ms) if self.ms else "–"


@dataclass(frozen=True)
class OperatorTable(Result):
    """The whole table, as `mindport coverage --list` shows it: nothing is run."""

    operators: tuple[Operator, ...]

    @property
    def ok(self) -> bool:
        return True

    def headline(self) -> str:
        names = sum(len(operator.names) for operator in self.operators)
        return f"{len(self.operators)} operators under {names} names of torch; `mindport coverage PATH` tries them"

    def tables(self) -> tuple[Table, ...]:
        columns = ("operator", "torch", "MindSpore", "instead", "mind")
        groups = dict.fromkeys(operator.group for operator in self.operators)
        return tuple(Table(g, columns, [_row(o) for o in self.operators if o.group == g]) for g in groups)


def operator_table() -> OperatorTable:
    """The table as a result."""
    return OperatorTable(OPERATORS)


def called(expression: str) -> str:
    """The MindSpore name that an expression stands for: a function that it calls, a method, else the expression."""
    for pattern, prefix in _CALLED:
        if found := pattern.findall(expression):
            return prefix + (found[-1] if prefix else found[0])
    return expression


def full(name: str) -> str:
    """A name of the table as torch spells it: `F.gelu` → `torch.nn.functional.gelu`."""
    root, dot, rest = name.partition(".")
    return SHORT.get(root, root) + dot + rest


def brief(name: str) -> str:
    """The other way: `torch.nn.functional.gelu` → `F.gelu`, `torch.Tensor.view` → `Tensor.view`."""
    for short, long in SHORT.items():
        if name.startswith(long + ".") and "." not in name[len(long) + 1 :]:
            return ("Tensor" if short == "x" else short) + name[len(long) :]
    return name


def frame(name: str) -> tuple[str, str] | None:
    """The counterpart and the remark of a name that computes nothing, or None for an operator."""
    parts = name.split(".")
    prefixes = (".".join(parts[:count]) + ".*" for count in range(len(parts), 0, -1))
    return next((FRAME[key] for key in (name, *prefixes) if key in FRAME), None)


def _row(operator: Operator) -> tuple[str, ...]:
    names = ", ".join(map(brief, operator.names))
    return operator.name, names, operator.ms or "–", operator.instead or "–", operator.trap or "–"


def _read(group: str, name: str, row: Mapping[str, Any]) -> Operator:
    """A row of a file; `both` says one expression for the two languages."""
    row = dict(row)
    names = tuple(full(word) for word in row.pop("names").split())
    expressions = {"torch": row["both"], "ms": row["both"]} if "both" in row else {}
    row.pop("both", None)
    return Operator(name, group, names, **expressions, **row)


@cache
def _yaml(path: Path) -> Any:
    import yaml

    return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


OPERATORS = tuple(
    _read(path.stem, name, row) for path in sorted(FOLDER.glob("operators/*.yaml")) for name, row in _yaml(path).items()
)
FRAME: dict[str, tuple[str, str]] = {name: tuple(row) for name, row in _yaml(FOLDER / "frame.yaml").items()}
BY_NAME = {name: operator for operator in OPERATORS for name in operator.names}
