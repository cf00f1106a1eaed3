"""A function, called on each rank of a job of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from mindport import errors
from mindport.errors import MindPortError, UsageError
from mindport.parallel.launch import records
from mindport.parallel.launch.job import GRACE, JOIN, Job, run, show
from mindport.parallel.launch.report import LaunchReport


class LaunchFailed(MindPortError):
    """A rank failed, and not for what the user gave it: the command line exits with 1, as for a negative verdict.

    Attributes:
        report: how each rank ended.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, report: LaunchReport) -> None:
        super().__init__(f"{report.headline()}\n{report.evidence()}", do=f"read the logs in {report.log_dir}")
        self.report = report


def call(
    function: str, arguments: Mapping[str, Any] | None = None, *, workers: int, log_dir: Path | str | None = None,
    timeout: float | None = None, join_timeout: float = JOIN, grace: float = GRACE,
    environ: Mapping[str, str] | None = None, say: Callable[[str], None] | None = None, fork: bool = True,
) -> list[Any]:  # fmt: skip
    """Call a function on each rank of a job, and return what each returned.

    When the last one has returned, the ranks are killed: what a function leaves to threads or to the interpreter's exit
    is not done.

    Args:
        function: `package.module:function`, found where this process finds its modules.
        arguments: its keywords; what JSON can hold.
        workers: ranks.
        log_dir: as for `launch`; by default a temporary one, which stays only after a failure.
        timeout, join_timeout, grace, environ, say: as for `launch`.
        fork: MindSpore is imported once, and the ranks are forked; on Ascend each imports it, as with a script.

    Returns:
        Of each rank, what JSON can hold of its result: dataclasses and arrays become dicts and lists, NaN "nan".

    Raises:
        UsageError: `function` is no such name, or what `launch` says.
        MindPortError: what the first rank that failed raised, when it is one of `mindport.errors`.
        LaunchFailed: it failed in any other way; its traceback is in the message.
    """
    module, _, name = function.partition(":")
    if not (module and name.isidentifier()):
        raise UsageError("that is no function", got=function, expected="package.module:function")
    folder = None if log_dir is None else Path(log_dir)
    report = run(Job(function, dict(arguments or {}), workers, folder, timeout, join_timeout, grace, environ or {},
                     say or show, fork))  # fmt: skip
    if not report.ok:
        raise _reason(report)
    said = [records.read(report.log_dir, rank, records.Said) for rank in range(workers)]
    if log_dir is None:
        shutil.rmtree(report.log_dir, ignore_errors=True)
    return [None if each is None else each.result for each in said]


def _reason(report: LaunchReport) -> MindPortError:
    """What the first rank refused, as if it had been refused here; or that it failed."""
    said = None if report.first is None else records.read(report.log_dir, report.first, records.Said)
    if said is not None and said.refusal is not None:
        parts = dict(said.refusal)
        kind = getattr(errors, parts.pop("type"), None)
        if isinstance(kind, type) and issubclass(kind, MindPortError):
            return kind(parts.pop("what"), **parts)
    return LaunchFailed(report)
