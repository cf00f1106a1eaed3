"""What a rule judges: the run's plan, and what happened in it so far."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from mindport.training.monitor.events import Evaluation, Pace
from mindport.training.monitor.meter import Shape
from mindport.training.step_record import StepRecord

FIRST = 5
KEPT = 1000  # steps; no rule looks further back
NORMAL = 1.4826  # a normal distribution's standard deviation, in median absolute deviations


@dataclass(frozen=True)
class Plan:
    """The plan.

    Attributes:
        start: the model's weights, or random ones.
        vocab: entries of the vocabulary.
        steps: of the whole run.
        warmup: steps in which the learning rate rises.
        entropy: of the training text's tokens by their frequency alone, nats, as `entropy` gives it; None: not known.
        loss_scale: float16 is used, and the loss scaled.
    """

    start: Literal["pretrained", "scratch"]
    vocab: int
    steps: int
    warmup: int = 0
    entropy: float | None = None
    loss_scale: bool = False

    @property
    def uniform(self) -> float:
        """ln V: the loss of a model that knows nothing."""
        return math.log(self.vocab)


@dataclass(frozen=True)
class Finding:
    """A trouble as a rule sees it: the parts of an alarm."""

    says: str
    causes: tuple[str, ...]
    do: str
    fatal: bool = False


@dataclass
class History:
    """What happened in this process; the last step is the one that is judged.

    Attributes:
        steps: the last thousand.
        first: the first finite losses, five of them.
        shapes: of the forward passes of each of them, sorted.
        known: shape → how many steps had it before the last one.
        evaluations: all.
        trained: the median training loss of the steps before each of them, back to the one before.
        paces: all.
    """

    steps: list[StepRecord] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    shapes: list[tuple[Shape, ...]] = field(default_factory=list)
    known: Counter[Shape] = field(default_factory=Counter)
    evaluations: list[Evaluation] = field(default_factory=list)
    trained: list[float] = field(default_factory=list)
    paces: list[Pace] = field(default_factory=list)

    def add(self, record: StepRecord, shapes: Iterable[Shape]) -> None:
        """A step."""
        if self.shapes:
            self.known.update(set(self.shapes[-1]))
        self.steps.append(record)
        if len(self.first) < FIRST and math.isfinite(record.loss):
            self.first.append(record.loss)
        self.shapes.append(tuple(sorted(shapes)))
        if len(self.steps) > 2 * KEPT:
            del self.steps[:KEPT], self.shapes[:KEPT]

    def evaluate(self, evaluation: Evaluation) -> None:
        """A measurement on held-out text."""
        since = self.evaluations[-1].step if self.evaluations else 0
        losses = [record.loss for record in self.steps if record.step > since and math.isfinite(record.loss)]
        self.evaluations.append(evaluation)
        self.trained.append(statistics.median(losses) if losses else math.nan)

    @property
    def last(self) -> StepRecord:
        return self.steps[-1]

    def recent(self, count: int) -> list[StepRecord]:
        """The last `count` steps, or none as long as there are fewer."""
        return self.steps[-count:] if len(self.steps) >= count else []

    def alike(self, count: int) -> list[StepRecord]:
        """The last `count` steps or fewer that computed the same shapes as the last one, and compiled nothing."""
        backwards = zip(reversed(self.steps), reversed(self.shapes), strict=True)
        alike = (record for record, shapes in backwards if shapes == self.shapes[-1] and not record.compiled)
        return list(itertools.islice(alike, count))[::-1]


def entropy(counts: np.ndarray) -> float:
    """Nats of a text whose tokens occur so often: the loss of a model that knows their frequencies and no context."""
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


def spread(values: Sequence[float]) -> float:
    """The standard deviation, as the median absolute deviation tells it: a few outliers do not change it."""
    middle = statistics.median(values)
    return NORMAL * statistics.median(abs(value - middle) for value in values)
