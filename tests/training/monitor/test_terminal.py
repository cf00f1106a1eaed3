"""What somebody sees who looks on."""

from __future__ import annotations

import io
import sys

import pytest

from mindport.training.monitor import Alarm, Bar, Evaluation, Lines, Pace, Sample, terminal
from mindport.training.step_record import StepRecord

RECORD = StepRecord(40, 3.21, 0.87, 2.9e-4, tokens=100, seconds=0.1)
PACE = Pace(40, 10, 1.5, 1234.0, 1000.0, 0.412, 0.0, 1900.0, 2000.0, 0.0, 1.0)
ALARM = Alarm(40, "loss spike", "loss 9.000", ("a high rate", "a bad batch"), "go back")


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(*events) -> list[str]:
    sink, said = Lines(5000), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", said)
        for event in events:
            sink.take(event)
        sink.close()
    return said.getvalue().splitlines()


def test_a_line_for_each_pace_and_none_for_a_step():
    assert lines(RECORD) == []
    assert lines(RECORD, PACE) == [
        "step 40/5000  loss 3.2100  norm 0.87  lr 2.90e-04  1,234 tok/s  MFU 41%  1.9 GB  ETA 2:04:00"
    ]


def test_what_was_not_measured_is_left_out():
    pace = Pace(40, 0, None, None, None, None, 12.5, 1900.0, 2000.0, 0.0, 1.0)
    assert lines(RECORD, pace) == [
        "step 40/5000  loss 3.2100  norm 0.87  lr 2.90e-04  1.9 GB  12.5 s in steps that compiled"
    ]


def test_a_loss_scale_and_a_skipped_step_are_said():
    record = StepRecord(40, 3.21, float("inf"), 2.9e-4, loss_scale=1024.0, moved=False)
    assert "norm inf  lr 2.90e-04  scale 1024  skipped" in lines(record, PACE)[0]


def test_the_rest_is_said_at_once():
    said = lines(Evaluation(40, 2.0, 7.389, 1000, 0.5), Sample(40, "To be", ", or not"), ALARM)
    assert said == [
        "held-out, step 40: loss 2.0000, perplexity 7.389 (1,000 tokens in 0.5 s)",
        "sample, step 40: To be│, or not",
        "ALARM loss spike, step 40: loss 9.000",
        "  cause?    a high rate",
        "  cause?    a bad batch",
        "  do:       go back",
    ]


def test_the_last_step_has_no_time_left():
    assert "ETA" not in lines(StepRecord(5000, 1.0, 1.0, 0.0), Pace(5000, *[1.0] * 10))[0]


def test_a_terminal_has_a_bar_and_a_file_has_lines(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(terminal(10), Lines)
    monkeypatch.setattr(sys, "stderr", Screen())
    assert isinstance(terminal(10), Bar)


def test_the_bar_goes_on_after_the_step_and_words_go_above_it(monkeypatch, capsys):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = terminal(50, step=39)
    for event in (PACE, RECORD, ALARM):
        bar.take(event)
    bar.close()
    said = screen.getvalue()
    assert "40/50" in said and "loss 3.2100" in said and "1,234 tok/s" in said and "ALARM loss spike" in said
    assert capsys.readouterr().out == ""
