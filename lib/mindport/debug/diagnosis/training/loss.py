"""The loss of step 0, from our own logits: which labels, which of them count, and what the sum is divided by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from mindport.debug.diagnosis.cause import Cause
from mindport.debug.diagnosis.training.causes import SYMPTOM, cause
from mindport.debug.diagnosis.training.gradients import factor_cause
from mindport.debug.diagnosis.training.steps import SCALAR, Steps, apart
from mindport.parity.recipe import IGNORED


@dataclass(frozen=True)
class Mistake:
    """A wrong loss: the cause it is, its value, and what to say of it."""

    name: str
    value: float
    details: Mapping[str, object] = field(default_factory=dict)


class Scores:
    """−log p of any labels, of our logits at step 0."""

    def __init__(self, logits: np.ndarray) -> None:
        top = logits.max(-1, keepdims=True)
        self.logp = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))  # (B, T, V)

    def __call__(self, labels: np.ndarray) -> np.ndarray:
        """(B, T), 0 where a label does not count."""
        picked = np.take_along_axis(self.logp, np.maximum(labels, 0)[..., None], -1)[..., 0]
        return np.where(labels == IGNORED, 0.0, -picked)

    def mean(self, labels: np.ndarray) -> float:
        return float(self(labels).sum() / max((labels != IGNORED).sum(), 1))


def explain_loss(steps: Steps) -> list[Cause]:
    """The mistake that makes our loss of our logits; where there is none, the logits may be wrong."""
    ours, right = float(steps.mine("loss")[0]), float(steps.right("loss")[0])
    if apart(ours, right) <= steps.allowed("loss", SCALAR):
        return []
    found = [] if steps.logits is None else _of_logits(steps, ours, steps.logits)
    return found or [cause("loss_differs", f"ours is {ours:.7g}, torch's {right:.7g}", SYMPTOM)]


def _of_logits(steps: Steps, ours: float, logits: np.ndarray) -> list[Cause]:
    scores = Scores(logits)
    ids, labels = steps.reference["batches"][0], steps.reference["labels"][0]
    should = scores.mean(labels)
    if apart(ours, should) <= SCALAR:
        return []  # the loss of these logits is right
    for wrong in mistakes(scores, ids, labels):
        if apart(ours, wrong.value) <= SCALAR:
            evidence = f"our logits make {wrong.value:.7g} so; our loss is {ours:.7g}, and should be {should:.7g}"
            return [cause(wrong.name, evidence, **wrong.details)]
    return [factor_cause(ours / should, "the loss of step 0")] if ours >= 2 * should else []


def mistakes(scores: Scores, ids: np.ndarray, labels: np.ndarray) -> Iterator[Mistake]:
    """Every wrong loss that is known, with its value for these logits.

    Args:
        scores: of the logits.
        ids, labels: (B, T), a label being the token that follows.
    """
    each, counts = scores(labels), labels != IGNORED
    for first in (ids, np.full_like(ids, IGNORED)):  # some labels leave out the first token, which nothing foretells
        yield Mistake("label_shift_missing", scores.mean(np.concatenate([first[:, :1], labels[:, :-1]], 1)))
    yield Mistake("label_shift_twice", scores.mean(_next(labels)))
    yield Mistake("padding_counted", scores.mean(_next(ids)))
    for size in (counts.size, counts[:, :-1].size):  # B·T, and where the last position is cut off
        yield Mistake("mean_over_all", each.sum() / size, {"all": size, "count": counts.sum()})
    yield Mistake("loss_summed", each.sum())
    yield Mistake("mean_of_means", float((each.sum(1) / np.maximum(counts.sum(1), 1)).mean()))
    for rows in _fewer(len(each)):
        value = each[rows].sum() / max(counts[rows].sum(), 1)
        yield Mistake("micro_batch_dropped", value, {"rows": f"{', '.join(map(str, rows))} of {len(each)}"})


def _fewer(count: int) -> Iterator[np.ndarray]:
    """All rows but one, then each alone."""
    rows = np.arange(count)
    yield from (np.delete(rows, row) for row in rows)
    yield from (rows[row : row + 1] for row in rows)


def _next(x: np.ndarray) -> np.ndarray:
    """(B, T): what stands one place later; nothing does at the end."""
    return np.concatenate([x[:, 1:], np.full_like(x[:, :1], IGNORED)], axis=1)
