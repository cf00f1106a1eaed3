"""What the user can get wrong, as a tree.

    MindPortError            exit code 2: the input cannot be used, and nothing was written
    ├── UsageError           the command line or a call's arguments
    ├── FileError            a file is missing, damaged, unsafe, or cannot be written
    ├── ConfigError          config.json says something that is wrong, unknown or not supported
    ├── MappingError         tensor names or shapes disagree with the table of the family
    ├── BackendError         a framework, compiler or device is missing or refuses
    ├── NotebookError        a notebook stopped in a cell
    └── LaunchFailed         a rank of a launched job failed (`parallel.launch`); its exit code is 1

A *negative verdict* (parity missed, a check failed) is not an error: it is a result whose
`ok` is false, and the command line exits with 1.
"""

from __future__ import annotations

from typing import ClassVar


class MindPortError(Exception):
    """One message that says what, where, got, expected, and what to do.

    Args:
        what: the fault in one sentence.
        where: file, key, tensor or cell.
        got: the value found.
        expected: the values that would be right.
        do: the next action for the user.

    Attributes:
        exit_code: of the command line.
    """

    exit_code: ClassVar[int] = 2

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        got: object = None,
        expected: object = None,
        do: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what, self.where, self.got, self.expected, self.do = what, where, got, expected, do

    def __str__(self) -> str:
        parts = [self.what]
        for label in ("where", "got", "expected", "do"):
            value = getattr(self, label)
            if value is not None:
                parts.append(f"  {label + ':':<10}{value}")
        return "\n".join(parts)


class UsageError(MindPortError):
    """The command line, or the arguments of a call, make no sense together."""


class FileError(MindPortError):
    """A file is missing, damaged, unsafe to read, or cannot be written."""


class ConfigError(MindPortError):
    """config.json says something that is wrong, unknown or not supported."""


class MappingError(MindPortError):
    """Tensor names or shapes disagree with the table of the family."""


class BackendError(MindPortError):
    """A framework, compiler or device is missing or refuses."""


class NotebookError(MindPortError):
    """A notebook stopped in one of its cells."""


def some(names: object, limit: int = 3) -> str:
    """The first few of many names, and how many more there are: `a, b, c (+4 more)`."""
    names = [str(name) for name in names]  # type: ignore[attr-defined]
    more = f" (+{len(names) - limit} more)" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def first_line(error: BaseException) -> str:
    """What a foreign library's error says, without its essay: the first line that is more than a rule, or nothing."""
    return next((line.strip() for line in str(error).splitlines() if line.strip(" -")), "")
