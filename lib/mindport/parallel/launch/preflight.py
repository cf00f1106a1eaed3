"""Whether a job can run here, said before it is started."""

from __future__ import annotations

import importlib.util
import sys

from mindport.errors import BackendError, UsageError
from mindport.machine import cores


def check(workers: int) -> list[str]:
    """Refuse what cannot work, and return what is doubtful.

    Raises:
        UsageError: not so many workers.
        BackendError: no msrun here.
    """
    if workers < 1:
        raise UsageError("a job has at least one worker", got=workers, expected="a number from 1 on")
    if sys.platform != "linux":
        raise BackendError("jobs are launched on Linux only", got=sys.platform)
    if importlib.util.find_spec("mindspore") is None:
        raise BackendError("there is no msrun here: MindSpore is not installed", do="mindport doctor")
    return [f"{workers} workers share {cores()} cores: they take turns"] if workers > cores() else []
