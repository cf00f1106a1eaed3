"""A training on as many processes as its configuration asks for.

    train(read_config("train.yaml", ["parallel.dp=2"]))

One process: here. Several: text and model are made ready here, since a rank that waits for another does not wait for
ever; then ranks are launched, each of which runs the trainer, and the answer is the report that the first one leaves.
In a rank of a job that somebody else has launched, that rank's part of it. On Ascend the same way is taken, with HCCL;
that was not verified.

Nothing here imports a framework before it computes.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from mindport.errors import MindPortError
from mindport.parallel.fits import check_layout
from mindport.parallel.launch import LaunchFailed, call, records
from mindport.parallel.launch.watch import Watch
from mindport.training.config import TrainConfig, complete
from mindport.training.config.fields import from_dict, to_dict
from mindport.training.interrupt import wishes
from mindport.training.parts import say_aloud, say_nothing
from mindport.training.run_directory import RunDirectory
from mindport.training.start import start_model
from mindport.training.text import prepare_text
from mindport.training.train_report import TrainReport, read_report

FIRST = "[rank 0] "  # before what the launcher passes on of the rank that speaks for all


def train(
    config: TrainConfig, *, resume: bool = False, overwrite: bool = False, quiet: bool = False
) -> TrainReport:  # fmt: skip
    """Train.

    Args:
        config: of the training; `parallel` says on how many processes.
        resume: go on from the newest whole checkpoint, whatever the layout that wrote it.
        overwrite: remove an earlier run first.
        quiet: nothing on stderr.

    Raises:
        MindPortError: as `Trainer` has it; what a rank refuses is refused here.
        LaunchFailed: a rank broke; it says which, and why.
    """
    config = complete(config)
    dp, tp = config.parallel.dp, config.parallel.tp
    if dp * tp == 1 or "RANK_ID" in os.environ:
        return _here(config, resume=resume, overwrite=overwrite, quiet=quiet)
    check_layout(config, dp, tp)
    directory = RunDirectory(config.out)
    _make_ready(config, directory, resume=resume, overwrite=overwrite, quiet=quiet)
    _launch(config, directory, dp * tp, {"resume": resume, "quiet": quiet})
    return read_report(directory.report)


def rank(config: Mapping[str, Any], *, resume: bool, quiet: bool) -> None:
    """What a rank does; its answer is in the run's directory."""
    _here(from_dict(TrainConfig, dict(config), "the launched configuration"), resume=resume, quiet=quiet)


def _here(config: TrainConfig, *, resume: bool, quiet: bool, overwrite: bool = False) -> TrainReport:
    """The part of this process."""
    from mindport.training.trainer import Trainer  # before anything of MindSpore: it settles its threads

    told, ranks = config.parallel, {}
    if told.dp * told.tp > 1:
        from mindport.parallel.join import join

        ranks = {"ranks": join(told.dp, told.tp)}
    return Trainer(config, quiet=quiet, **ranks).run(resume=resume, overwrite=overwrite)


def _make_ready(config: TrainConfig, directory: RunDirectory, *, resume: bool, overwrite: bool, quiet: bool) -> None:
    """The text and the model that the ranks are going to find, and a place for the run."""
    directory.check_free(resume=resume, overwrite=overwrite)
    with directory.locked():
        directory.check_free(resume=resume, overwrite=overwrite)  # nobody was faster
        if overwrite:
            directory.clear()
        prepare_text(config)
        start_model(config, directory.model, say_nothing if quiet else say_aloud)


def _launch(config: TrainConfig, directory: RunDirectory, workers: int, rest: Mapping[str, Any]) -> None:
    """Run the ranks to their end; a signal goes on to them, as a wish that they heed together."""
    directory.ranks.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=time.strftime("%Y-%m-%d-%H%M%S-"), dir=directory.ranks))
    say = say_nothing if rest["quiet"] else _passed_on
    with wishes(_relay(folder, workers)) as wish:
        try:
            call("mindport.parallel.train:rank", {"config": to_dict(config), **rest}, workers=workers, log_dir=folder,
                 say=say)  # fmt: skip
        except MindPortError as error:
            if wish.signal:  # a rank that it ended, before it could write anything, did not fail
                _leave(wish.signal)
            if isinstance(error, LaunchFailed) and any(directory.checkpoints.glob("step-*")):
                error.do = f"{error.do}; go on from the newest checkpoint with --resume"
            raise


def _relay(folder: Path, workers: int) -> Callable[[signal.Signals], None]:
    """What is done with a signal: the ranks get it; where one has not begun there is nothing to finish."""

    def relay(number: signal.Signals) -> None:
        if any(records.read(folder, rank, records.Started) is None for rank in range(workers)):
            _leave(number)
        Watch(folder, workers, say_nothing).tell_ranks(number)

    return relay


def _leave(number: signal.Signals) -> NoReturn:
    """As the signal would have it without us."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def _passed_on(line: str) -> None:
    """The first rank speaks as one process would; others are named."""
    say_aloud(line.removeprefix(FIRST))
