"""How long messages take between the processes of a job: a line through measured ones, and what a step then sends.

A message of n bytes takes latency + n / bandwidth. The planner knows links by the same two numbers, so its formulas can
be asked about a job that is small enough to be measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mindport.config import ModelConfig
from mindport.errors import BackendError
from mindport.mindformers import Layout
from mindport.parallel.plan import Job, evaluate, hardware

MEBI = 2**20
ZOOMS, POINTS, SHRINK = 24, 81, 0.5  # of the search for a line
DEVICE = "910B"  # any will do: of its constants only the two of the link are asked for, and nothing is hidden


@dataclass(frozen=True)
class Message:
    """AllReduces that were timed.

    Attributes:
        bytes: of all of them.
        seconds: the median.
        messages: how many there were.
    """

    bytes: int
    seconds: float
    messages: int = 1

    @property
    def rate(self) -> float:
        """MiB a second."""
        return self.bytes / MEBI / self.seconds


@dataclass(frozen=True)
class Link:
    """What lies between two processes.

    Attributes:
        latency: seconds of a message that says nothing.
        bandwidth: bytes a second.
    """

    latency: float
    bandwidth: float

    def seconds(self, message: Message) -> float:
        """What such messages take."""
        return message.messages * self.latency + message.bytes / self.bandwidth


def fit(measured: Sequence[Message]) -> Link:
    """The line from which the messages are off by the smallest factor, in the mean of its logarithm.

    Small and large messages count alike, and one that the machine was busy in does not move it far. Latency and slope
    are searched for on a grid, which shrinks around the best of its points.

    Raises:
        BackendError: fewer than two sizes were measured.
    """
    if len({message.bytes for message in measured}) < 2:
        raise BackendError("a line needs messages of two sizes", got=[message.bytes for message in measured])
    seconds, sizes = (np.array([getattr(m, name) for m in measured], float) for name in ("seconds", "bytes"))
    centre, span = np.log([seconds.min(), np.median(seconds / sizes)]), np.log(1e4)
    for _ in range(ZOOMS):
        around = np.linspace(-span, span, POINTS)
        latency, slope = np.exp(centre[0] + around)[:, None], np.exp(centre[1] + around)[None]
        off = sum(np.abs(np.log((latency + slope * n) / s)) for n, s in zip(sizes, seconds, strict=True))
        best = np.unravel_index(np.argmin(off), off.shape)
        centre, span = centre + around[list(best)], span * SHRINK
    return Link(float(np.exp(centre[0])), float(np.exp(-centre[1])))


def predicted(model: ModelConfig, rows: int, tokens: int, link: Link, processes: int = 2) -> dict[str, float]:
    """Seconds that a step of the model exchanges over such a link, by the planner's formulas: as dp and as tp."""
    # the planner's all-reduce is a scatter and a gather, of a latency each; two cards send a half each way
    constants = {"link": link.bandwidth, "latency": link.latency / 2, "dp_overlap": 0.0, "tp_overlap": 0.0}
    job = Job(model, hardware(DEVICE).with_values(constants), processes, tokens, rows, "float32")
    times = {axis: evaluate(job, Layout(**{axis: processes})).time for axis in ("dp", "tp")}
    return {"dp": times["dp"]["data traffic"], "tp": times["tp"]["tensor traffic"]}
