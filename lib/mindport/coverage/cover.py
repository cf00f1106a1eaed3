"""`mindport coverage`: what a source or a module uses of torch, and what MindSpore makes of each operator here."""

from __future__ import annotations

from pathlib import Path

from mindport.coverage import live, scan
from mindport.coverage.probe import Answers, probe
from mindport.coverage.report import CoverageReport, Other, Row
from mindport.coverage.table import BY_NAME, METHOD, OPERATORS, brief, frame
from mindport.coverage.usage import Usage

TIMEOUT = 120.0  # seconds for the import and the call of a live module


def cover(target: str | Path, *, timeout: float = TIMEOUT) -> CoverageReport:
    """Find the torch operators that a target uses, try MindSpore's counterparts, and judge by the 20 % rule.

    Args:
        target: a Python file or a directory, or the name of a module, whose source is read and never executed; or
            `package.module:Name` (`file.py:Name`), a module class or a function that returns a module or
            (module, inputs), which is made and called in a process of its own.
        timeout: seconds for a live module.

    Raises:
        FileError: what the path names is no Python source, or uses nothing of torch.
        UsageError: there is no such target.
        BackendError: the live module's own code failed, or a framework is missing.
    """
    name = str(target)
    usage = live.trace(name, timeout) if live.is_live(name) else scan.scan(_source(name))
    names = usage.by_name()
    unknown = sorted(use for use in names if use not in BY_NAME and not frame(use))
    used = {BY_NAME[use].name for use in names if use in BY_NAME}
    answers = probe([operator for operator in OPERATORS if operator.name in used], unknown)
    return _report(name, usage, answers)


def _source(name: str) -> Path:
    path = Path(name).expanduser()
    is_module = not path.exists() and all(part.isidentifier() for part in name.split("."))
    return scan.find_source(name) if is_module else path


def _report(target: str, usage: Usage, answers: Answers) -> CoverageReport:
    """Each use in its row. A method of an unknown object that no tensor has is somebody else's."""
    places = usage.by_name()
    rows = [
        Row.of(operator, tuple(place for name in operator.names for place in places.get(name, ())), tried)
        for operator in OPERATORS
        if (tried := answers.operators.get(operator.name))
    ]
    rows += [Row.unknown(name, tuple(places[name]), found) for name, found in answers.names.items()
             if found.torch or not name.startswith(METHOD)]  # fmt: skip
    others = [Other(brief(name), len(where), *row) for name, where in places.items()
              if name not in BY_NAME and (row := frame(name))]  # fmt: skip
    others.sort(key=lambda other: -other.uses)
    rows.sort(key=lambda row: (row.is_supported, -len(row.places), row.operator))
    return CoverageReport(target, answers.device, usage.files, tuple(rows), tuple(others), usage.unread, usage.notes)
