"""The script that msrun starts: as the scheduler it serves, as a worker it runs the user's script.

A worker forks. The child becomes the rank; the parent, which imports no framework, waits and writes down how it ended,
which msrun would keep to itself. After a failure the parent stays until it is ended: when one ends with a code other
than 0, msrun kills the other ranks at once, and they are to have a moment to say what they met.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path and sys.path[0] == __file__.rpartition("/")[0]:
    del sys.path[0]  # this folder, whose files would hide packages of the same names

import contextlib
import faulthandler
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import time
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from mindport.errors import MindPortError
from mindport.files import read_json
from mindport.parallel.launch import records
from mindport.parallel.launch.environ import TOKEN
from mindport.process_table import adopt_orphans, below, die_with, end_all
from mindport.results import plain

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OWN = (__file__, runpy.__file__, "<frozen runpy>", importlib.__file__, "<frozen importlib._bootstrap>")


def main() -> None:
    """Be what msrun says, or have that done by a process that has imported MindSpore already."""
    from mindport.parallel.launch.nursery import ask

    msrun = os.getppid()
    quiet = os.environ.get("GLOG_v", "2") not in ("0", "1", "2")  # read as MindSpore is imported; see `_serve`
    channel = None if quiet and _rank() is None else ask()
    if channel is None:
        attend(msrun)
    die_with(msrun)
    while channel.recv(1) != b"0":  # a failure, or the other end was killed: see `_wait`
        signal.pause()
    os._exit(0)


def attend(above: int, channel: socket.socket | None = None) -> NoReturn:
    """Fork a rank, or the scheduler, and wait for it.

    Args:
        above: the parent, whose end ends everything here.
        channel: to the process that msrun started, where that is not this one; its end does the same.
    """
    folder, rank, own = Path(os.environ[TOKEN]), _rank(), os.getpid()
    adopt_orphans()
    for number in SIGNALS:
        signal.signal(number, lambda number, _: _end_after(above))
    die_with(above, signal.SIGTERM)
    if not (pid := os.fork()):
        die_with(own)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        if channel is not None:
            channel.close()
        if rank is None:
            _serve(folder, own)
        _be_rank(folder, rank, own)
    _wait(folder, rank, pid, channel)


def _rank() -> int | None:
    """Which rank this is; None for the scheduler."""
    return None if os.environ.get("MS_ROLE") == "MS_SCHED" else int(os.environ["RANK_ID"])


def _serve(folder: Path, keeper: int) -> NoReturn:
    """Be the scheduler; its log tells the launcher which ranks have joined, whatever level the user's has."""
    os.environ["GLOG_v"] = "2"
    records.write(folder, None, records.Started(os.getpid(), keeper, time.time()))
    from mindspore.communication import init

    init()  # MindSpore ends the process in there, with 0, when the last rank has left
    sys.exit()


def _end_after(above: int) -> None:
    """End what is below this process when its parent has ended; any other signal of these is for the rank."""
    if os.getppid() != above:
        _end_below()


def _end_below() -> NoReturn:
    own = os.getpid()
    end_all(lambda: below(own))
    os._exit(1)


def _wait(folder: Path, rank: int | None, pid: int, channel: socket.socket | None) -> NoReturn:
    """Until the rank has ended, and after a failure longer."""
    if channel is not None:
        watched = os.pidfd_open(pid)
        if watched not in select.select([watched, channel], [], [])[0]:
            _end_below()
    _, status, usage = os.wait4(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    records.write(folder, rank, records.Ended(code, time.time(), usage.ru_maxrss * 1024))
    if channel is not None and not code:
        channel.send(b"0")
    while code:
        signal.pause()
    os._exit(0)


def _be_rank(folder: Path, rank: int, keeper: int) -> NoReturn:
    """Run the job's script, or call its function, and write down what came of it."""
    stack = open(records.stack_path(folder, rank), "w", encoding="utf-8")
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=True)
    faulthandler.enable(stack, all_threads=False)  # a crash as well, for the report
    signal.signal(signal.SIGINT, signal.default_int_handler)
    records.write(folder, rank, records.Started(os.getpid(), keeper, time.time()))
    job = read_json(folder / records.JOB)
    try:
        result = _call(job) if job["function"] else _run(job)
        said = _said(0, returned=bool(job["function"]), result=result)
    except BaseException as error:
        said = _failure(error)
        records.write(folder, rank, said)
        if said.code and not isinstance(error, SystemExit):
            sys.excepthook(type(error), error, _script_part(error))  # MindSpore's tells the cluster
        elif said.code and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    else:
        records.write(folder, rank, said)
    sys.exit(said.code)


def _run(job: dict[str, Any]) -> None:
    """The script as `python SCRIPT ARGUMENTS` would run it."""
    sys.argv[:] = [job["script"], *job["arguments"]]
    sys.path.insert(0, str(Path(job["script"]).resolve().parent))
    runpy.run_path(job["script"], run_name="__main__")


def _call(job: dict[str, Any]) -> Any:
    """What the function returns, as JSON can hold it; modules are found where the caller finds them."""
    sys.path += [place for place in job["path"] if place not in sys.path]
    module, name = job["function"].split(":")
    result = plain(getattr(importlib.import_module(module), name)(**job["arguments"]))
    json.dumps(result, allow_nan=False)  # or the launcher would never learn why there is no answer
    return result


def _failure(error: BaseException) -> records.Said:
    code = 1
    if isinstance(error, SystemExit):
        code = error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)
        if not code:
            return _said(0)
    lines = traceback.format_exception(type(error), error, _script_part(error))
    message = "\n".join(traceback.format_exception_only(type(error), error)).strip()
    if isinstance(error, SyntaxError):
        message = f"{type(error).__name__}: {error}"  # as the first line, which otherwise is the place
    refusal = None
    if isinstance(error, MindPortError):
        parts = {part: getattr(error, part) for part in ("what", "where", "got", "expected", "do")}
        refusal = {part: None if value is None else str(value) for part, value in parts.items()}
        refusal["type"] = type(error).__name__
    return _said(code, error=message, traceback="".join(lines), refusal=refusal)


def _script_part(error: BaseException) -> TracebackType | None:
    """The traceback without the frames of this file and of the modules that run a script; None where it has no more."""
    part = error.__traceback__
    while part is not None and part.tb_frame.f_code.co_filename in OWN:
        part = part.tb_next
    return part


def _said(code: int, **more: Any) -> records.Said:
    """A record of this moment; what is printed of a failure comes after, and is shown once, in the report."""
    written = 0
    with contextlib.suppress(AttributeError, OSError, ValueError):  # a script may have closed or replaced them
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        written = os.fstat(1).st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return records.Said(code, time.time(), written, peak, **more)


if __name__ == "__main__":
    main()
