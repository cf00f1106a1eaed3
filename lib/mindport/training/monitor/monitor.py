"""Watches a training: measures, judges, and tells all sinks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from types import TracebackType

from mindport.training.monitor.alarms import Watch
from mindport.training.monitor.events import Alarm, Evaluation, Event, Sample
from mindport.training.monitor.meter import Meter, Shape
from mindport.training.monitor.sink import Sink
from mindport.training.step_record import StepRecord


class Monitor:
    """`with Monitor(sinks, meter, watch, every=10) as monitor: alarms = monitor.step(record, shapes)`

    Args:
        sinks: take every event, each before what follows from it; closed with the monitor.
        meter: measures speed and memory.
        watch: judges.
        every: steps between measurements of speed and memory.
    """

    def __init__(self, sinks: Iterable[Sink], meter: Meter, watch: Watch, *, every: int) -> None:
        self.sinks, self.meter, self.watch, self.every = tuple(sinks), meter, watch, max(every, 1)

    def step(self, record: StepRecord, shapes: Sequence[Shape]) -> list[Alarm]:
        """After a step, with the (rows, tokens) of its forward passes.

        Returns:
            The alarms that ring; of a `fatal` one the training should end.
        """
        self._tell(record)
        self.meter.add(record, shapes)
        alarms = self.watch.step(record, shapes)
        if record.step % self.every == 0 or record.step == self.watch.plan.steps:
            pace = self.meter.pace()
            self._tell(pace)
            alarms += self.watch.pace(pace)
        return self._ring(alarms)

    def evaluation(self, evaluation: Evaluation) -> list[Alarm]:
        """After a measurement on held-out text: the alarms that ring."""
        self._tell(evaluation)
        return self._ring(self.watch.evaluation(evaluation))

    def notice(self, alarm: Alarm) -> list[Alarm]:
        """An alarm of somebody else's."""
        return self._ring([alarm])

    def samples(self, samples: Iterable[Sample]) -> None:
        """What the model writes."""
        for sample in samples:
            self._tell(sample)

    def close(self) -> None:
        """Close all sinks, each of them even if another fails."""
        with contextlib.ExitStack() as stack:
            for sink in self.sinks:
                stack.callback(sink.close)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _ring(self, alarms: list[Alarm]) -> list[Alarm]:
        for alarm in alarms:
            self._tell(alarm)
        return alarms

    def _tell(self, event: Event) -> None:
        for sink in self.sinks:
            sink.take(event)
