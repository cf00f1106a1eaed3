"""The checkpoints of one run: the newest few and the best, never one that is torn.

    save ── wait for the one being written ── copy ── hand over │ write aside, rename ── best.json ── remove old ones
    the training stands still                                   │ a thread, while the training goes on

What is removed is renamed first, so that a name step-… always is a whole checkpoint. A process that is killed leaves
names with a dot in front, which the next one removes.

Of several processes that write one checkpoint each calls all of this alike; the first one alone removes and points.
"""

from __future__ import annotations

import contextlib
import functools
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import FileError, MindPortError, UsageError
from mindport.files import flush, read_json, remove_free, write_json
from mindport.training.checkpoint.background import Background
from mindport.training.checkpoint.origin import Origin, read_origin
from mindport.training.checkpoint.read import Saved, read_checkpoint
from mindport.training.checkpoint.record import read_record
from mindport.training.checkpoint.shares import Share
from mindport.training.checkpoint.snapshot import Snapshot
from mindport.training.checkpoint.write import check_step, take, write_checkpoint
from mindport.training.checkpoint.write_share import ShareWriter

BEST, PATTERN = "best.json", re.compile(r"step-\d{8,}")


@dataclass(frozen=True)
class Stall:
    """How long a save held the training up, in seconds.

    Attributes:
        path: where the checkpoint will be, or is.
        waited: for the one before, which was still being written.
        took: to copy the arrays, and to write them where no thread does.
    """

    path: Path
    waited: float
    took: float


class Checkpoints:
    """A directory of checkpoints; use it in a `with`, which waits for the last one.

    Args:
        root: the directory; it is made with the first checkpoint. One process at a time writes there.
        source: the MindPort directory that the model came from (or the Hugging Face directory, for a model that
            starts from scratch): configuration, tokenizer and manifest are taken from it, now.
        keep: so many of the newest stay; the disk holds one more of them while it is written.
        best: the one with the lowest held-out loss stays besides, and `best.json` names it.
        asynchronous: a thread writes. It takes memory for one more copy of weights and state.
        share: of this process, where each of several writes its own; None: this one has everything, and writes it.

    Raises:
        UsageError: `keep` is less than 1.
        FileError, ConfigError: `source` is no directory of a model, or `root` no directory.
    """

    def __init__(
        self, root: Path | str, source: Path | str, *, keep: int = 2, best: bool = True, asynchronous: bool = True,
        share: Share | None = None,
    ) -> None:  # fmt: skip
        if keep < 1:
            raise UsageError(
                "one checkpoint at least is kept", where="checkpoints.keep", got=keep, expected="1 or more"
            )
        self.root, self.keep, self.best = Path(root), keep, best
        if self.root.exists() and not self.root.is_dir():
            raise FileError("checkpoints need a directory", where=root, got="a file", do="name another place")
        self.origin: Origin = read_origin(source)
        self.refused: dict[Path, MindPortError] = {}
        self._background = Background("mindport-checkpoint") if asynchronous else None
        self._share, self._saves = share, 0
        self._is_first = share is None or share.is_first
        if self._is_first:
            self._sweep()
            self._point()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except MindPortError as error:
            if kind is None:
                raise
            print(f"a checkpoint was not written either: {error}", file=sys.stderr)  # the first error is the one to see

    def save(self, snapshot: Snapshot, loss: float | None = None) -> Stall:
        """Save a training; `loss` is the held-out one, if it was measured at this step.

        Returns when the arrays are copied (`asynchronous`), or when the checkpoint is on the disk.

        Raises:
            UsageError: the snapshot is not of this model, or cannot be stored.
            FileError: this checkpoint, or the one before, could not be written, by this process or by another.
        """
        start = time.perf_counter()
        check_step(snapshot)
        self.wait()
        waited = time.perf_counter()
        path = self.root / f"step-{snapshot.step:08d}"
        write = self._taken(path, snapshot, loss)
        self._make_room(path)

        def work() -> None:
            write()
            if self._is_first:
                self._tidy()

        if self._background:
            self._background.start(work)
        else:
            work()
        return Stall(path, waited - start, time.perf_counter() - waited)

    def wait(self) -> None:
        """Until the last checkpoint is on the disk.

        Raises:
            FileError: it could not be written.
        """
        if self._background:
            self._background.wait()

    def close(self) -> None:
        """Wait, and end the thread; raises as `wait` does."""
        if self._background:
            self._background.close()

    def all(self) -> tuple[Path, ...]:
        """The checkpoints by step, the newest last."""
        found = (path for path in self.root.glob("step-*") if PATTERN.fullmatch(path.name) and path.is_dir())
        return tuple(sorted(found, key=step_of))

    def newest(self) -> Saved | None:
        """The newest one that is whole, by all its digests; None where there is no checkpoint.

        Newer ones that are damaged are in `refused`, with what is wrong.

        Raises:
            FileError: there are some, and each is damaged.
        """
        self.wait()
        self.refused = {}
        for path in reversed(self.all()):
            try:
                return _of_its_name(read_checkpoint(path))
            except MindPortError as error:
                self.refused[path] = error
        if self.refused:
            path, error = next(iter(self.refused.items()))
            raise FileError(f"none of the {len(self.refused)} checkpoints is whole", where=self.root,
                            got=f"{path.name}: {error.what}", do="start anew, in another directory")  # fmt: skip
        return None

    def lowest(self) -> tuple[Path, float] | None:
        """The one with the lowest held-out loss, the earliest of equals, and that loss; None where none has any."""
        losses = self._losses()
        path = min(losses, key=lambda path: (losses[path], step_of(path)), default=None)
        return path and (path, losses[path])

    def cut(self, step: int) -> tuple[Path, ...]:
        """Remove the checkpoints after `step`: of a course that is taken again from there. The first process does."""
        self.wait()
        if not self._is_first:
            return ()
        later = tuple(path for path in self.all() if step_of(path) > step)
        for path in later:
            self._remove(path)
        self._point()
        return later

    def _taken(self, path: Path, snapshot: Snapshot, loss: float | None) -> Callable[[], None]:
        """Copy a snapshot; what is returned writes the copy."""
        self._saves += 1
        if self._share is None:
            return functools.partial(write_checkpoint, path, take(snapshot, loss, self.origin.model), self.origin)
        writer = ShareWriter(path, self.origin, self._share, self._saves)
        return functools.partial(writer.write, *writer.take(snapshot, loss))

    def _tidy(self) -> None:
        """Name the best one, and remove what is neither that nor among the newest."""
        best = self._point()
        for old in self.all()[: -self.keep]:
            if old != best:
                self._remove(old)

    def _make_room(self, path: Path) -> None:
        """What has the name already is in the way if it is whole, and removed if it is not."""
        if not path.exists():
            return
        try:
            read_checkpoint(path)
        except FileError:
            if self._is_first:
                self._remove(path)
        else:
            raise UsageError("this step has a checkpoint already", where=path,
                             do="resume from it, or remove the later ones: Checkpoints.cut(step)")  # fmt: skip

    def _point(self) -> Path | None:
        """Let best.json name the checkpoint with the lowest loss, which is found anew: a process may have died before
        it could say so."""
        pointer, found = self.root / BEST, self.lowest() if self.best else None
        if found is None:
            pointer.unlink(missing_ok=True)
            return None
        path, loss = found
        value = {"checkpoint": path.name, "step": step_of(path), "loss": loss}
        with contextlib.suppress(FileError):  # one that cannot be read is written again
            if read_json(pointer) == value:
                return path
        write_json(pointer, value)
        return path

    def _losses(self) -> dict[Path, float]:
        found = {}
        for path in self.all():
            try:
                loss = read_record(path).loss
            except FileError:  # `newest` tells of it
                continue
            found |= {} if loss is None else {path: loss}
        return found

    def _remove(self, path: Path) -> None:
        gone = path.with_name(f".{path.name}.{secrets.token_hex(4)}.removed")
        try:
            path.replace(gone)
            flush(self.root)
            shutil.rmtree(gone)
        except OSError as error:
            raise FileError("an old checkpoint cannot be removed", where=path, got=error,
                            do="see who else uses it, and whether you may write there") from error  # fmt: skip

    def _sweep(self) -> None:
        """Remove what a process left that was killed: parts of new checkpoints, remains of old ones."""
        for pattern in (".step-*.part", ".step-*.removed"):
            for path in self.root.glob(pattern):
                remove_free(path)
        for path in self.root.glob(f".{BEST}.*.part"):
            path.unlink(missing_ok=True)


def _of_its_name(saved: Saved) -> Saved:
    """A checkpoint under the name of another step is not of its place: `cut` would take it for a later one."""
    if step_of(saved.path) != saved.step:
        raise FileError("the checkpoint's name is not its step", where=saved.path, got=saved.path.name,
                        expected=f"step-{saved.step:08d}", do="rename it")  # fmt: skip
    return saved


def step_of(path: Path) -> int:
    """The step in a checkpoint's name."""
    return int(path.name.removeprefix("step-"))
