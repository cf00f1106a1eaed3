"""How the processes that write one checkpoint learn of each other: through files, in the directory it is written in.

    .step-00000100.4f1c-3.part/
        whole/             becomes step-00000100
        rank-00001.json    what this process wrote, or why it could not
        end.json           whether the first process has put the whole in its place

No collective: the thread that writes may not call one while the training computes. Every process holds a lock on the
directory while it takes part; who is the last to leave removes it. Where one never came, the next run does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mindport.errors import FileError, MindPortError, some
from mindport.files import remove_free

POLL = 0.01  # seconds
END, FAILED = "end.json", "failed"
UNSAID = {FAILED: {"what": "it could not even say why", "got": None, "do": "see its log; is the disk full?"}}


class Rendezvous:
    """One process's side of it; use it in a `with`.

    Args:
        directory: the same in all processes, and new.
        rank: of this process.
        size: all of them.
        patience: seconds that the first process, when it is done, waits for the others; they wait twice that for it.

    Attributes:
        whole: the directory that is to be filled.
    """

    def __init__(self, directory: Path, rank: int, size: int, patience: float) -> None:
        self.directory, self.rank, self.size, self.patience = directory, rank, size, patience
        self.whole = directory / "whole"
        self._descriptor = -1

    def __enter__(self) -> Rendezvous:
        self.whole.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self.directory, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a disk that knows no locks: then nobody removes it, either
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        if all(self._file(rank).exists() for rank in range(self.size)):
            remove_free(self.directory)

    def tell(self, said: dict[str, Any]) -> None:
        """Say what this process wrote."""
        _put(self._file(self.rank), said)

    def refuse(self, error: BaseException) -> None:
        """Say that this process could not; the first one says with it that there is no checkpoint."""
        said = {FAILED: _told(error)}
        for path in (self._file(self.rank), *((self.directory / END,) if self.rank == 0 else ())):
            if not _put_anyhow(path, said):
                path.touch()  # a name needs no room on a full disk

    def gather(self) -> list[dict[str, Any]]:
        """What each process wrote, by rank; for the first one, when it has said its own.

        Raises:
            FileError: one of them failed, or did not end in time.
        """
        found: dict[int, dict[str, Any]] = {}

        def all_came() -> bool:
            for rank in range(self.size):
                if rank not in found and (said := _said(self._file(rank))) is not None:
                    found[rank] = _checked(said, f"rank {rank}", self.directory)
            return len(found) == self.size

        if not _until(all_came, self.patience):
            missing = [f"rank {rank}" for rank in range(self.size) if rank not in found]
            raise FileError(
                "processes did not end their share of a checkpoint", where=self.directory,
                got=f"nothing from {some(missing)} of {self.size} ranks in {self.patience:g} s",
                do="see their logs, and whether all of them see the same disk",
            )  # fmt: skip
        return [found[rank] for rank in range(self.size)]

    def end(self) -> None:
        """Say that the checkpoint is whole and in its place."""
        _put(self.directory / END, {})

    def wait(self) -> None:
        """Until the first process has said how it ended.

        Raises:
            FileError: there is no checkpoint, and why; or it did not say.
        """
        ended: list[dict[str, Any]] = []

        def has_ended() -> bool:
            ended.extend(said for said in [_said(self.directory / END)] if said is not None)
            return bool(ended)

        if not _until(has_ended, 2 * self.patience):
            raise FileError(
                "the first process did not say whether the checkpoint is whole", where=self.directory,
                got=f"nothing from rank 0 in {2 * self.patience:g} s", do="see the log of rank 0",
            )  # fmt: skip
        _checked(ended[0], "rank 0", self.directory)

    def _file(self, rank: int) -> Path:
        return self.directory / f"rank-{rank:05d}.json"


def _until(happened: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def _put(path: Path, value: dict[str, Any]) -> None:
    aside = path.with_suffix(".aside")
    aside.write_text(json.dumps(value), encoding="utf-8")
    aside.replace(path)


def _put_anyhow(path: Path, value: dict[str, Any]) -> bool:
    try:
        _put(path, value)
    except OSError:
        return False
    return True


def _said(path: Path) -> dict[str, Any] | None:
    """What stands in a file of `_put`; None: there is none yet."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return UNSAID


def _told(error: BaseException) -> dict[str, Any]:
    if isinstance(error, MindPortError):
        return {"what": error.what, "got": error.got and str(error.got), "do": error.do}
    return {"what": str(error) or type(error).__name__, "got": None, "do": None}


def _checked(said: dict[str, Any], who: str, where: Path) -> dict[str, Any]:
    if FAILED not in said:
        return said
    told = said[FAILED]
    raise FileError("no checkpoint was written: a process could not do its part", where=where,
                    got=": ".join(str(part) for part in (who, told["what"], told["got"]) if part),
                    do=told["do"] or "see its log")  # fmt: skip
