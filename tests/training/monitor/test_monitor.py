"""The monitor: who is told what, and in which order; and the meter's arithmetic."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from mindport.measure import memory
from mindport.measure.flops import step_flops
from mindport.training.monitor import Evaluation, Meter, Monitor, Plan, Sample, Watch, machine_peak
from mindport.training.step_record import StepRecord
from mindport.tuning.shapes import gpt2

CONFIG = gpt2(32, 4, layers=2, vocab_size=100, context=16)


class Kept:
    """A sink that keeps what it is told."""

    def __init__(self) -> None:
        self.events, self.closed = [], False

    def take(self, event) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.closed = True


def record(step: int, **values) -> StepRecord:
    return StepRecord(
        step, **{"loss": 4.6, "norm": 1.0, "lr": 1e-3, "tokens": 32, "counted": 30, "seconds": 0.5, **values}
    )


def monitor(*sinks, steps: int = 100, every: int = 10) -> Monitor:
    return Monitor(sinks, Meter(CONFIG, None), Watch(Plan("scratch", 100, steps)), every=every)


def kinds(sink: Kept) -> list[str]:
    return [type(event).__name__ for event in sink.events]


def test_every_sink_is_told_each_event_before_what_follows_from_it():
    one, other = Kept(), Kept()
    with monitor(one, other, every=2) as watcher:
        watcher.evaluation(Evaluation(0, 4.6, 100.0, 10, 0.1))
        assert watcher.step(record(1), [(2, 16)]) == []
        alarms = watcher.step(record(2, loss=math.nan), [(2, 16)])
        watcher.samples([Sample(2, "a", "b"), Sample(2, "c", "d")])
    assert [alarm.fatal for alarm in alarms] == [True]
    assert kinds(one) == ["Evaluation", "StepRecord", "StepRecord", "Pace", "Alarm", "Sample", "Sample"]
    assert [repr(event) for event in one.events] == [repr(event) for event in other.events]
    assert one.closed and other.closed


def test_the_last_step_is_measured_whatever_its_number():
    sink = Kept()
    with monitor(sink, steps=3) as watcher:
        for step in (1, 2, 3):
            watcher.step(record(step), [(2, 16)])
    assert kinds(sink) == ["StepRecord"] * 3 + ["Pace"]


def test_a_sink_that_fails_does_not_keep_others_open():
    class Broken(Kept):
        def close(self) -> None:
            raise OSError("no")

    one, other = Kept(), Kept()
    with pytest.raises(OSError, match="no"), monitor(one, Broken(), other):
        pass
    assert one.closed and other.closed


def test_rates_are_means_over_the_steps_that_did_not_compile():
    meter = Meter(CONFIG, peak=1e-3)
    meter.add(record(1, seconds=60.0, compiled=1), [(2, 16)])
    for step, shapes in ((2, [(2, 16)]), (3, [(1, 16), (1, 16)])):
        meter.add(record(step), shapes)
    pace = meter.pace()
    assert (pace.step, pace.steps, pace.seconds, pace.compiling) == (3, 2, 0.5, 60.0)
    assert (pace.tokens_per_second, pace.counted_per_second) == (64.0, 60.0)
    assert pace.mfu == pytest.approx((step_flops(CONFIG, 2, 16) + 2 * step_flops(CONFIG, 1, 16)) / 1e6)
    meter.add(record(4, seconds=0.25), [(2, 16)])
    assert meter.pace().tokens_per_second == 128.0  # the one before is forgotten


def test_without_a_peak_or_a_step_nothing_is_guessed():
    meter = Meter(CONFIG, peak=None)
    meter.add(record(1), [(2, 16)])
    assert meter.pace().mfu is None
    meter.add(record(2, compiled=1), [(2, 16)])
    pace = meter.pace()
    assert (pace.seconds, pace.tokens_per_second, pace.counted_per_second, pace.mfu) == (None,) * 4


def test_memory_is_this_process_s():
    before, block = memory.resident(), b"x" * 80_000_000
    assert memory.resident() - before > 0.9 * len(block) / 1e6
    assert memory.peak() >= memory.resident() and memory.swapped() >= 0


def test_no_device_but_a_cpu_is_measured(monkeypatch):
    import mindspore as ms

    from mindport.measure import peak

    monkeypatch.setattr(peak, "glance", lambda: 12.5)
    assert machine_peak() == 12.5
    monkeypatch.setattr(ms, "get_context", lambda name: SimpleNamespace(device_target="Ascend").device_target)
    assert machine_peak() is None
