"""A planted fault must be caught: a cell that expects one fails when nothing is raised."""

from __future__ import annotations

import re
from types import TracebackType

CALL_STACK = "\n" + 52 * "-"  # begins what MindSpore adds for its own developers


class expect_fault:
    """`with expect_fault(MappingError): …` passes when the block raises `kind`, and prints the message.

    Args:
        kind: the type of the error, or several.
        match: a regular expression to be found in the message.

    Raises:
        AssertionError: nothing was raised, or something else was.
    """

    def __init__(self, kind: type[Exception] | tuple[type[Exception], ...], *, match: str = "") -> None:
        self._kinds = kind if isinstance(kind, tuple) else (kind,)
        self._match = match

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        expected = " or ".join(each.__name__ for each in self._kinds)
        if error is None:
            raise AssertionError(f"the planted fault was not caught: expected {expected}, nothing was raised")
        if not isinstance(error, Exception):
            return False  # an interrupt is not a fault
        if not isinstance(error, self._kinds):
            raise AssertionError(f"the planted fault raised {type(error).__name__}, expected {expected}") from error
        if not re.search(self._match, str(error)):
            raise AssertionError(f"the message does not say {self._match!r}: {error}") from error
        print(f"caught, as planned: {type(error).__name__}: {str(error).partition(CALL_STACK)[0].rstrip()}")
        return True
