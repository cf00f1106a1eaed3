"""Version numbers and the two questions asked of them: which is newer, and does it satisfy a pin?"""

from __future__ import annotations

import operator
import re
from functools import total_ordering

_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(?:[.-]?rc\.?(\d+))?(.*)", re.IGNORECASE)
_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*(\S+)")
_EARLY = re.compile(r"[.-]?(alpha|beta|dev|a|b)", re.IGNORECASE)
_OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_FINAL = 10**6  # after every release candidate


@total_ordering
class Version:
    """A release number and its candidate: `9.0.0`, `26.0.RC1`, `8.2.RC1.alpha003`; `+cpu` and the like do not count."""

    def __init__(self, text: str) -> None:
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a version number")
        release, candidate, rest = match.groups()
        numbers = [int(part) for part in release.split(".")]
        self.text = text.strip()
        rank = (int(candidate) if candidate else _FINAL, not _EARLY.match(rest))
        self.key = (*numbers, *[0] * (4 - len(numbers)), *rank)

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.key == other.key

    def __lt__(self, other: Version) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)


def satisfies(version: str, specifier: str) -> bool:
    """Whether `version` meets every clause of a specifier such as `>=1.26,<2` or `==2.10.*`.

    Raises:
        ValueError: a version or a clause cannot be read.
    """
    clauses = [clause.strip() for clause in specifier.split(",") if clause.strip()]
    return all(_meets(Version(version), clause) for clause in clauses)


def _meets(found: Version, clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        raise ValueError(f"{clause!r} is not a clause with one of {', '.join(_OPERATORS)}")
    sign, limit = match.groups()
    if limit.endswith(".*"):  # the numbers before the star are equal
        numbers = tuple(int(part) for part in limit[:-2].split("."))
        return (found.key[: len(numbers)] == numbers) == (sign == "==")
    return _OPERATORS[sign](found, Version(limit))
