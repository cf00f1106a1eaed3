"""One line of the environment check: what was looked at, what was found, what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mindport.errors import BackendError

State = Literal["pass", "warning", "error"]
STATES: tuple[State, ...] = ("pass", "warning", "error")


@dataclass(frozen=True)
class Check:
    """One check and its answer.

    Attributes:
        name: what was looked at, unique in a report ("numpy").
        group: the table it stands in ("packages").
        state: `error` means that a notebook will fail or be wrong; `warning`, that something is reduced or untested.
        found: what is there.
        expected: what would be right.
        do: the next action; never empty on a warning or an error.
        seconds: how long it took, where that matters.
    """

    name: str
    group: str
    state: State
    found: str
    expected: str = ""
    do: str = ""
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.state not in STATES:
            raise ValueError(f"{self.name}: the state is {self.state!r}, not one of {', '.join(STATES)}")
        if self.state != "pass" and not self.do:
            raise ValueError(f"{self.name}: a {self.state} must say what to do")

    def require(self) -> Check:
        """Return the check unless it is an error.

        Raises:
            BackendError: the state is `error`.
        """
        if self.state == "error":
            raise BackendError(self.name, got=self.found, expected=self.expected, do=self.do)
        return self

    def _repr_html_(self) -> str:
        from mindport.tables import Table

        row = (self.state, self.name, self.found, self.expected, self.do)
        return Table(self.group, ("state", "check", "found", "expected", "what to do"), [row])._repr_html_()
