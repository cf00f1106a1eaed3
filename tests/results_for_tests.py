"""A result that says what a test wants it to say."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.results import Property, Result
from mindport.tables import Table


@dataclass(frozen=True)
class Answer(Result):
    """A result with a verdict, a headline, tables and properties given by the test."""

    good: bool = True
    says: str = "4 of 4 hold"
    error: float = 4.1e-6
    shown: tuple[Table, ...] = ()
    lines: tuple[Property, ...] = ()

    @property
    def ok(self) -> bool:
        return self.good

    def headline(self) -> str:
        return self.says

    def tables(self) -> tuple[Table, ...]:
        return self.shown

    def properties(self) -> tuple[Property, ...]:
        return self.lines
