"""Which part of a statement first made a value that is not finite: its expressions are computed again, inside out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mindport.debug.summary import Summary, summaries

MUTATES = {"append", "extend", "insert", "pop", "update", "assign", "assign_add", "assign_sub", "set_data", "print"}
FILLS = {"masked_fill", "where", "select", "full", "full_like"}  # −inf written on purpose
OWN_SCOPE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
OPERATORS = {ast.Div: "/", ast.Pow: "**", ast.Mult: "*", ast.Add: "+", ast.Sub: "-", ast.MatMult: "@"}


@dataclass(frozen=True)
class Culprit:
    """The innermost expression whose value is not finite although its operands are (or hide with −inf only).

    Attributes:
        code: the expression.
        operator: the name of what is called ("softmax"), or the sign ("/").
        value: what it makes.
        operands: what it is given.
        in_float32: the value when its float16 operands are widened first; None where that is not so, or fails.
    """

    code: str
    operator: str
    value: Summary
    operands: tuple[Summary, ...]
    in_float32: Summary | None = None


def culprit(node: ast.stmt, local: Mapping[str, Any], names: dict[str, Any], *, masks: bool = True) -> Culprit | None:
    """Compute the parts of a statement again, from what they had; None when they cannot be, or all are finite.

    A statement that changes something (appends, assigns a parameter) is not computed twice.

    Args:
        node: the statement.
        local: the local names before it.
        names: the global ones.
        masks: let −inf pass as a mask.
    """
    expression = _expression(node)
    if expression is None or any(_mutates(part) for part in ast.walk(expression)):
        return None
    scope = dict(local)
    try:
        for part in _inside_out(expression, lambda test: bool(_compute(test, names, scope))):
            value = _bad(_compute(part, names, scope), masks)
            if value is not None:
                return None if value.masks and operator(part) in FILLS else _described(part, value, names, scope)
    except Exception:  # whatever a part of somebody's line needs that is not here: the line itself is still named
        return None
    return None


def softmax_operands(node: ast.stmt, local: Mapping[str, Any], names: dict[str, Any]) -> tuple[Summary, ...]:
    """What the softmaxes of a statement are given, however they are called; nothing where it cannot be computed."""
    scope = dict(local)
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and "softmax" in operator(part).lower()]
    try:
        return tuple(each for part in calls if not any(map(_mutates, ast.walk(part)))
                     for each in _operands(part, names, scope))  # fmt: skip
    except Exception:  # a name that only a comprehension has, for instance
        return ()


def operator(part: ast.AST) -> str:
    """`ops.softmax(x, -1)` → softmax, `a / b` → /, other expressions → their kind."""
    if isinstance(part, ast.BinOp):
        return OPERATORS.get(type(part.op), type(part.op).__name__)
    if isinstance(part, ast.Call):
        return part.func.attr if isinstance(part.func, ast.Attribute) else ast.unparse(part.func)
    return type(part).__name__


def _expression(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.AugAssign):
        target = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.fix_missing_locations(ast.copy_location(ast.BinOp(target, node.op, node.value), node))
    return getattr(node, "value", None)


def _mutates(part: ast.AST) -> bool:
    name = operator(part).lower() if isinstance(part, ast.Call) else ""
    return isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield)) or name in MUTATES or name.endswith("_")


def _inside_out(node: ast.AST, holds: Callable[[ast.expr], bool]) -> Iterator[ast.expr]:
    """The parts that are computed, innermost first; of `a if test else b` the branch that is taken."""
    if isinstance(node, OWN_SCOPE):
        return
    taken = isinstance(node, ast.IfExp) and (node.body if holds(node.test) else node.orelse)
    for child in [taken] if taken else ast.iter_child_nodes(node):
        yield from _inside_out(child, holds)
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript)):
        yield node


def _compute(part: ast.expr, names: dict[str, Any], scope: dict[str, Any]) -> Any:
    return eval(compile(ast.Expression(part), "<part of a line>", "eval"), names, scope)


def _bad(value: Any, masks: bool) -> Summary | None:
    """The first tensor in it with a value that is not finite, and is no mask where those may pass."""
    return next((s for s in summaries("value", value) if not s.finite and not (masks and s.masks)), None)


def _described(part: ast.expr, value: Summary, names: dict[str, Any], scope: dict[str, Any]) -> Culprit:
    given = tuple(_operands(part, names, scope))
    narrow = "float16" in (value.dtype, *(each.dtype for each in given))
    wide = _widened(part, names, scope) if narrow else None
    return Culprit(ast.unparse(part), operator(part), value, given, wide)


def _operands(part: ast.expr, names: dict[str, Any], scope: dict[str, Any]) -> Iterator[Summary]:
    if isinstance(part, ast.Call):
        method = [part.func.value] if isinstance(part.func, ast.Attribute) else []
        children = [*method, *part.args, *(word.value for word in part.keywords)]
    else:
        children = [child for child in ast.iter_child_nodes(part) if isinstance(child, ast.expr)]
    for child in children:
        yield from summaries(ast.unparse(child), _compute(child, names, scope))


def _widened(part: ast.expr, names: dict[str, Any], scope: dict[str, Any]) -> Summary | None:
    """The same in float32, when it reads local names only: a weight beside them would stay float16."""
    from mindspore import Tensor, float16, float32

    if any(isinstance(each, ast.Name) and each.id == "self" for each in ast.walk(part)):
        return None

    def wide(value: Any) -> Any:
        return value.astype(float32) if isinstance(value, Tensor) and value.dtype == float16 else value

    try:
        return summaries("in float32", _compute(part, names, {n: wide(v) for n, v in scope.items()}))[0]
    except Exception:  # not every operator takes both types
        return None
