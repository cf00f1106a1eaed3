"""What happens in a training, besides the steps themselves: measured, written, noticed."""

from __future__ import annotations

from dataclasses import dataclass

from mindport.training.step_record import StepRecord


@dataclass(frozen=True)
class Evaluation:
    """What the model makes of text that it does not learn from.

    Attributes:
        step: after how many steps; 0 before the first.
        loss: mean over all tokens that count, nats.
        perplexity: exp(loss): among how many equally likely tokens the model seems to choose.
        tokens: that the loss is a mean of.
        seconds: what the measurement took.
    """

    step: int
    loss: float
    perplexity: float
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Sample:
    """What the model writes after a prompt, the likeliest token each time."""

    step: int
    prompt: str
    text: str


@dataclass(frozen=True)
class Pace:
    """How fast the steps since the last one of these were, and what they took.

    Steps that compiled are left out of the rates; None means that it was not measured.

    Attributes:
        step: the last one.
        steps: that the rates are means of; 0 when all of them compiled.
        seconds: of a step.
        tokens_per_second: through the model, padding included.
        counted_per_second: tokens that the loss counts.
        mfu: share of the machine's measured peak that useful operations took (model FLOPs utilisation).
        compiling: seconds of the steps that are left out because they compiled.
        memory: resident now, MB (1e6 bytes); this and what follows of all ranks together.
        peak: the most so far, MB, each rank's own.
        swapped: MB.
        load: processes that want a core, over the last minute.
    """

    step: int
    steps: int
    seconds: float | None
    tokens_per_second: float | None
    counted_per_second: float | None
    mfu: float | None
    compiling: float
    memory: float
    peak: float
    swapped: float
    load: float


@dataclass(frozen=True)
class Alarm:
    """Something that a person should look at.

    Attributes:
        step: when.
        name: the trouble, the same for each alarm of its kind.
        says: what was seen, with figures.
        causes: what usually is behind it, the likeliest first.
        do: the next action.
        fatal: going on would only do harm; the trainer stops.
    """

    step: int
    name: str
    says: str
    causes: tuple[str, ...]
    do: str
    fatal: bool = False

    def text(self) -> str:
        """All of it, on a line for each part."""
        lines = [f"{self.name}, step {self.step}: {self.says}", *(f"  cause?    {cause}" for cause in self.causes)]
        return "\n".join([*lines, f"  do:       {self.do}"])


Event = StepRecord | Evaluation | Sample | Pace | Alarm
