"""Events as event files for TensorBoard: `tensorboard --logdir DIR`."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mindport.training.monitor.events import Alarm, Evaluation, Event, Pace, Sample
from mindport.training.step_record import StepRecord

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter

FLUSH = 10  # seconds until what happened can be seen
CURVES: dict[type, dict[str, str]] = {  # field of an event → name of its curve
    StepRecord: {"loss": "train/loss", "norm": "train/norm", "lr": "train/lr", "loss_scale": "train/loss_scale"},
    Evaluation: {"loss": "held_out/loss", "perplexity": "held_out/perplexity"},
    Pace: {"tokens_per_second": "pace/tokens_per_second", "counted_per_second": "pace/counted_per_second",
           "mfu": "pace/mfu", "memory": "pace/memory_MB", "peak": "pace/peak_MB"},
}  # fmt: skip


class TensorBoard:
    """The sink.

    Args:
        directory: of the event files; each process adds one.
        step: the step that the training goes on after; TensorBoard then drops what earlier files say of later ones.
    """

    def __init__(self, directory: Path, step: int = 0) -> None:
        with _torch_unseen():
            from tensorboardX import SummaryWriter
        logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)  # the alarm says that there is a NaN
        Path(directory).mkdir(parents=True, exist_ok=True)
        self._writer: SummaryWriter = SummaryWriter(
            str(directory), purge_step=step + 1, flush_secs=FLUSH,
            filename_suffix=f".{os.getpid()}.{step}",  # else two that begin in one second have one name
        )  # fmt: skip

    def take(self, event: Event) -> None:
        """Its figures as points of curves, its words as text."""
        for field, curve in CURVES.get(type(event), {}).items():
            if (value := getattr(event, field)) is not None:
                self._writer.add_scalar(curve, value, event.step)
        if isinstance(event, Sample):
            self._writer.add_text(f"samples/{event.prompt[:40]}", event.prompt + event.text, event.step)
        elif isinstance(event, Alarm):
            self._writer.add_text(f"alarms/{event.name}", event.text().replace("\n", "  \n"), event.step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


@contextlib.contextmanager
def _torch_unseen() -> Iterator[None]:
    """tensorboardX imports torch where it finds it, to no use here: seconds, and hundreds of megabytes."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["torch"]
