"""The process that MindSpore works in, as seen from here: started with the first thing that is asked of it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from mindport.errors import BackendError
from mindport.fork_server import Child, start
from mindport.processes import ending, environment, last_line

MODULE = "mindport.parallel.reshard.mindspore_side"
IMPORTED = ("mindspore", "mindspore.train.node_strategy_pb2", MODULE)


@dataclass
class _Process:
    child: Child | subprocess.Popen[bytes]
    orders: IO[str]
    answers: IO[str]


class MindSporeSide:
    """Asks, and waits for the answer; the process ends with the block.

    Attributes:
        grew: MB of memory that the process took at its peak, above those with which it began.
    """

    def __init__(self) -> None:
        self.grew = 0.0
        self._process: _Process | None = None
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")

    def __enter__(self) -> MindSporeSide:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if process := self._process:
            if kind is not None:
                process.child.kill()
            with contextlib.suppress(OSError):  # it has gone already
                process.orders.close()
            process.child.wait()
            process.answers.close()
        self._said.close()

    def ask(self, do: str, **order: Any) -> None:
        """Have one operation of `mindspore_side` done; paths are passed as text.

        Raises:
            BackendError: MindSpore refused, is not there, or its process ended.
        """
        self._process = self._process or self._start()
        told = {name: str(value) if isinstance(value, Path) else value for name, value in order.items()}
        try:
            print(json.dumps({"do": do, **told}), file=self._process.orders, flush=True)
            answer = self._process.answers.readline()
        except OSError:
            answer = ""
        if not answer:
            raise self._ended(self._process.child.wait())
        told = json.loads(answer)
        self.grew = max(self.grew, told["grew"])
        if "error" in told:
            raise BackendError("MindSpore refuses to transform this checkpoint", where=do,
                               got=told["error"].splitlines()[0],
                               do="see whether the disk has room; the layout was checked")  # fmt: skip

    def _start(self) -> _Process:
        (theirs, orders), (answers, out) = os.pipe(), os.pipe()
        try:
            child = start(MODULE, [], IMPORTED, environ=environment(GLOG_v="3"), stdin=theirs, stdout=out,
                          stderr=self._said)  # fmt: skip
        finally:
            os.close(theirs)
            os.close(out)
        return _Process(child, open(orders, "w", encoding="utf-8"), open(answers, encoding="utf-8"))

    def _ended(self, code: int) -> BackendError:
        self._said.seek(0)
        return BackendError("the process that MindSpore works in ended", where=ending(code),
                            got=last_line(self._said.read()) or "nothing said",
                            do="see whether mindspore is installed, and the memory free")  # fmt: skip
