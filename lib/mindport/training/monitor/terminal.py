"""Events for somebody who looks on: a bar on a terminal, a line now and then elsewhere, always on stderr."""

from __future__ import annotations

import sys
from typing import Any

from mindport.training.monitor.events import Alarm, Evaluation, Event, Pace, Sample
from mindport.training.monitor.sink import Sink
from mindport.training.step_record import StepRecord


def terminal(steps: int, *, step: int = 0) -> Sink:
    """A bar where stderr is a terminal, lines where it is not.

    Args:
        steps: of the whole run.
        step: that it goes on after.
    """
    return Bar(steps, step) if sys.stderr.isatty() else Lines(steps)


class Lines:
    """A line for each `Pace`, which comes every so many steps, and for all that is not a step.

    Args:
        steps: of the whole run.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._record: StepRecord | None = None

    def take(self, event: Event) -> None:
        """Remember a step, say the rest."""
        if isinstance(event, StepRecord):
            self._record = event
        if text := self._text(event):
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing is left to say."""

    def _text(self, event: Event) -> str:
        if isinstance(event, Pace) and self._record is not None:
            head = f"step {event.step}/{self.steps}  {figures(self._record)}"
            return "  ".join([head, *pace_figures(event), *eta(event, self.steps)])
        return words(event)


class Bar:
    """A bar with the figures of the last step; all that is not a step goes above it.

    Args:
        steps: of the whole run.
        step: that it goes on after.
    """

    def __init__(self, steps: int, step: int = 0) -> None:
        from tqdm import tqdm

        self._bar: Any = tqdm(total=steps, initial=step, unit="step", file=sys.stderr, dynamic_ncols=True)
        self._pace: list[str] = []

    def take(self, event: Event) -> None:
        """Move the bar by a step, say the rest."""
        if isinstance(event, StepRecord):
            self._bar.set_postfix_str("  ".join([figures(event), *self._pace]), refresh=False)
            self._bar.update(event.step - self._bar.n)
        elif isinstance(event, Pace):
            self._pace = pace_figures(event)
        else:
            self._bar.write(words(event), file=sys.stderr)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def figures(record: StepRecord) -> str:
    """Loss, norm and rate of a step; the loss scale where there is one."""
    scale = f"  scale {record.loss_scale:g}" if record.loss_scale != 1 else ""
    return f"loss {record.loss:.4f}  norm {record.norm:.3g}  lr {record.lr:.2e}{scale}" + "  skipped" * (
        not record.moved
    )


def pace_figures(pace: Pace) -> list[str]:
    """Speed, MFU, memory, and what was compiled, as far as they were measured."""
    return [
        *[f"{rate:,.0f} tok/s" for rate in [pace.tokens_per_second] if rate is not None],
        *[f"MFU {share:.0%}" for share in [pace.mfu] if share is not None],
        f"{pace.memory / 1e3:.1f} GB",
        *[f"{seconds:.1f} s in steps that compiled" for seconds in [pace.compiling] if seconds],
    ]


def eta(pace: Pace, steps: int) -> list[str]:
    """The time that is left at this speed, as hours, minutes and seconds."""
    if pace.seconds is None or pace.step >= steps:
        return []
    minutes, seconds = divmod(round(pace.seconds * (steps - pace.step)), 60)
    hours, minutes = divmod(minutes, 60)
    return [f"ETA {hours}:{minutes:02}:{seconds:02}"]


def words(event: Event) -> str:
    """All but steps and paces in words; of those nothing."""
    if isinstance(event, Evaluation):
        return (f"held-out, step {event.step}: loss {event.loss:.4f}, perplexity {event.perplexity:.4g} "
                f"({event.tokens:,} tokens in {event.seconds:.1f} s)")  # fmt: skip
    if isinstance(event, Sample):
        text = f"{event.prompt}│{event.text}".replace("\n", "⏎")
        return f"sample, step {event.step}: {text}"
    return f"ALARM {event.text()}" if isinstance(event, Alarm) else ""
