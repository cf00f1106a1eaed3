"""The directory of a run: what lies in it, and that one training at a time writes there.

out/
    .mindport-run    says that it is a run's, and who writes there now
    config.yaml      the whole configuration, as `mindport train` takes it
    model/           the model converted, where it came in Hugging Face's format
    data/            the tokens, as `mindport prepare` left them
    metrics.jsonl    every step, measurement, sample and alarm
    tensorboard/     the same for TensorBoard
    checkpoints/     step-00000100/, …: each a MindPort directory
    ranks/           where several processes train: what each of them printed, launch by launch
    report.json      what came of it
    beside.json      the same training in torch, and how far the two are apart
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from mindport.errors import FileError, UsageError, some
from mindport.files import locked

MARK = ".mindport-run"
BEFORE = ("model", "data", "ranks")  # may be there before the first step
RUN = ("config.yaml", "metrics.jsonl", "tensorboard", "checkpoints", "report.json", "beside.json")


class RunDirectory:
    """The paths in it."""

    def __init__(self, out: Path | str) -> None:
        self.path = Path(out)
        self.config, self.metrics = self.path / "config.yaml", self.path / "metrics.jsonl"
        self.tensorboard, self.checkpoints = self.path / "tensorboard", self.path / "checkpoints"
        self.model, self.data = self.path / "model", self.path / "data"
        self.ranks = self.path / "ranks"
        self.report, self.beside = self.path / "report.json", self.path / "beside.json"

    def has_run(self) -> bool:
        """Whether a training was begun here."""
        return (self.path / MARK).is_file() and (self.config.exists() or self.checkpoints.exists())

    def check_free(self, *, resume: bool, overwrite: bool) -> None:
        """Stop before an earlier run, or something else, is written over.

        Raises:
            UsageError: a run is there, and nobody said what is to become of it; or both was said.
            FileError: it is no directory, or one of something else.
        """
        if resume and overwrite:
            raise UsageError("a run is either gone on with or replaced", got="--resume and --overwrite")
        if self.path.exists() and not self.path.is_dir():
            raise FileError("the run's directory is a file", where=self.path, do="name another one: --out DIR")
        marked = (self.path / MARK).is_file()
        names = {path.name for path in self.path.iterdir()} if self.path.is_dir() and not marked else set()
        if foreign := sorted(name for name in names if name not in BEFORE and not name.startswith(".")):
            raise FileError("the run's directory holds something else", where=self.path, got=some(foreign),
                            do="name another one: --out DIR")  # fmt: skip
        if self.has_run() and not (resume or overwrite):
            raise UsageError("a run is there already", where=self.path,
                             do="--resume goes on with it, --overwrite begins again, --out DIR takes another place",
                             )  # fmt: skip

    def clear(self) -> None:
        """Remove an earlier run and its tokens; what is not ours stays, and so does the converted model, which is
        looked at before it is used."""
        for path in (*map(self.path.joinpath, RUN), self.data) if self.has_run() else ():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Hold the directory for the time of the block.

        Raises:
            UsageError: another training holds it.
        """
        return locked(self.path / MARK, "another training writes to this directory",
                      "wait for it, or name another place: --out DIR")  # fmt: skip
