"""The loss on held-out text."""

from __future__ import annotations

from mindport.training.monitor.alarms.history import Finding, History, Plan

WORSE, TIMES = 0.01, 2  # relative to the best; measurements in a row


def overfit(history: History, plan: Plan) -> Finding | None:
    """What is seen is learnt better and better, and the rest worse and worse."""
    losses, trained = [evaluation.loss for evaluation in history.evaluations], history.trained
    best = min(range(len(losses)), key=losses.__getitem__)
    after = losses[best + 1 :]
    if len(after) < TIMES or not all(loss > (1 + WORSE) * losses[best] for loss in after[-TIMES:]):
        return None
    then = trained[best] if best else trained[1]  # before the first step nothing was trained
    if not trained[-1] < then:
        return None
    return Finding(
        f"the held-out loss is {losses[-1]:.3f}, after {losses[best]:.3f} at step {history.evaluations[best].step}, "
        f"while the training loss fell from {then:.3f} to {trained[-1]:.3f}",
        ("the model learns the training text by heart: too little of it for so many steps",
         "the learning rate is high for fine-tuning", "held-out text of another kind than the training text"),
        "keep the best checkpoint (checkpoints.best); fewer steps, more text, a lower rate, or dropout",
    )  # fmt: skip
