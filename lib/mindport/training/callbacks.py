"""What a user hangs into a training: called by the trainer at each event, with the trainer itself.

    class Milestones(Callback):
        def on_evaluation(self, run, evaluation):
            if evaluation.loss < 2.0:
                run.stop("the held-out loss is below 2")

A callback reads `run.config`, `run.model` and `run.step` (steps taken), and may call `run.stop(reason)`; one that
changes weights or draws random numbers of the model makes a resumed run another one. An exception in a callback ends
the training, after a last checkpoint, with the callback named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mindport.errors import MindPortError, UsageError
from mindport.training.data.batch import Batch
from mindport.training.step_record import StepRecord

if TYPE_CHECKING:  # the trainer imports this file
    from mindport.training.trainer import Trainer


class Callback:
    """Does nothing at every event; a subclass overrides those that it is for."""

    def on_start(self, run: Trainer) -> None:
        """Before the first step; everything is built, and restored where the run goes on."""

    def on_batch(self, run: Trainer, batches: Sequence[Batch]) -> None:
        """Before each step: what it takes, a batch for each pass."""

    def on_step(self, run: Trainer, record: StepRecord) -> None:
        """After each step."""

    def on_evaluation(self, run: Trainer, evaluation: Any) -> None:
        """After each measurement on held-out text."""

    def on_sample(self, run: Trainer, sample: Any) -> None:
        """After each sample of what the model writes."""

    def on_checkpoint(self, run: Trainer, step: int) -> None:
        """After a checkpoint was handed over; `run.wait()` waits until it is on the disk."""

    def on_alarm(self, run: Trainer, alarm: Any) -> None:
        """When something looks wrong."""

    def on_end(self, run: Trainer) -> None:
        """After the last step and the last checkpoint, however the run ended but by an error."""


class StopAt(Callback):
    """End the training once the mean training loss of the last steps is low enough.

    Args:
        loss: that is enough, nats.
        steps: that it is the mean of.

    Raises:
        UsageError: the numbers make no limit.
    """

    def __init__(self, loss: float, steps: int = 10) -> None:
        if not math.isfinite(loss) or steps < 1:
            raise UsageError("a training cannot stop at this loss", got=f"loss={loss}, steps={steps}",
                             expected="a finite loss, of 1 step or more")  # fmt: skip
        self.loss, self.steps, self.last = loss, steps, []

    def on_step(self, run: Trainer, record: StepRecord) -> None:
        self.last = [*self.last, record.loss][-self.steps :]
        if len(self.last) == self.steps and sum(self.last) / self.steps <= self.loss:
            run.stop(f"the training loss of the last {self.steps} steps is {sum(self.last) / self.steps:.4g}")


class CallbackFailed(MindPortError):
    """A callback raised; the training ended with a checkpoint."""


class Callbacks:
    """All of a run, in order."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        for each in callbacks:
            if not isinstance(each, Callback):
                raise UsageError("this is no callback", got=f"{each!r}", expected="an instance of a Callback class")
        self.callbacks = tuple(callbacks)

    def call(self, event: str, run: Trainer, *what: Any) -> None:
        """Tell every callback of one event.

        Raises:
            CallbackFailed: one of them raised.
        """
        for each in self.callbacks:
            try:
                getattr(each, event)(run, *what)
            except Exception as error:
                raise CallbackFailed(
                    "a callback failed, and the training ended", where=f"{type(each).__name__}.{event}",
                    got=f"{type(error).__name__}: {error}", do="mend it, and go on with --resume",
                ) from error  # fmt: skip
