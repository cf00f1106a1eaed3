"""Event files: read back, record by record."""

from __future__ import annotations

import builtins
import math
import struct
import sys

import pytest

from mindport.training.monitor import Alarm, Evaluation, Pace, Sample, TensorBoard
from mindport.training.monitor.tensorboard import _torch_unseen
from mindport.training.step_record import StepRecord

EVENTS = [
    StepRecord(1, 3.0, 1.5, 1e-3, loss_scale=1024.0),
    Pace(1, 1, 0.1, 800.0, 700.0, None, 0.0, 812.0, 900.0, 0.0, 1.5),
    Evaluation(1, 2.0, math.exp(2), 100, 0.5),
    Sample(1, "To be", ", or not"),
    StepRecord(2, math.nan, 1.5, 1e-3),
    Alarm(2, "not finite", "loss nan", ("a cause",), "go back"),
]


def read(directory):
    """The events of all files in the order of their making."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(directory.iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            yield Event.FromString(data[12 : 12 + length])
            data = data[16 + length :]


def write(directory, events, step: int = 0) -> None:
    board = TensorBoard(directory, step)
    for event in events:
        board.take(event)
    board.close()


def test_figures_become_curves_and_words_become_text(tmp_path, capfd):
    write(tmp_path / "board", EVENTS)
    values = [(event.step, value) for event in read(tmp_path / "board") for value in event.summary.value]
    curves = {(value.tag, step): value.simple_value for step, value in values if not value.HasField("tensor")}
    assert curves["train/loss", 1] == 3.0 and curves["train/loss_scale", 1] == 1024.0
    assert curves["held_out/perplexity", 1] == pytest.approx(math.exp(2))
    assert curves["pace/tokens_per_second", 1] == 800.0
    assert ("pace/mfu", 1) not in curves  # what was not measured is not drawn
    assert math.isnan(curves["train/loss", 2])
    texts = [value.tensor.string_val[0].decode() for _, value in values if value.HasField("tensor")]
    assert texts[0] == "To be, or not" and "a cause" in texts[1]
    assert "NaN" not in capfd.readouterr().err


def test_after_a_resume_what_came_later_is_dropped(tmp_path):
    write(tmp_path / "board", EVENTS)
    write(tmp_path / "board", [StepRecord(2, 1.0, 1.0, 1e-3)], step=1)
    starts = [event.step for event in read(tmp_path / "board") if event.session_log.status == 1]
    assert starts == [1, 2]  # TensorBoard purges events of these steps and later ones from earlier files


def test_torch_is_not_imported_with_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with _torch_unseen(), pytest.raises(ImportError):
        builtins.__import__("torch")
    assert "torch" not in sys.modules


def test_torch_that_is_there_stays(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", math)
    with _torch_unseen():
        assert sys.modules["torch"] is math
    assert sys.modules["torch"] is math
