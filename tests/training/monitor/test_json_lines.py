"""metrics.jsonl: what is written is read, whole lines survive a torn end, no step is there twice after a resume."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindport.errors import FileError
from mindport.training.monitor import Alarm, Evaluation, JsonLines, Pace, Sample, read_metrics
from mindport.training.step_record import StepRecord

EVENTS = [
    StepRecord(1, 3.0, 1.5, 1e-3, counted=7, tokens=8, seconds=0.25, compiled=1),
    Pace(1, 0, None, None, None, None, 0.25, 812.0, 900.0, 0.0, 1.5),
    Evaluation(1, 3.0, math.exp(3), 100, 0.5),
    Sample(1, "To be", ", or\u2028not\n"),
    StepRecord(2, math.nan, math.inf, 1e-3, moved=False),
    Alarm(2, "not finite", "loss nan", ("one cause", "another"), "go back", fatal=True),
]


def write(path, events, step: int = 0) -> None:
    lines = JsonLines(path, step)
    for event in events:
        lines.take(event)
    lines.close()


def same(one, other) -> bool:
    return repr(one) == repr(other)  # NaN is not equal to itself


def test_every_kind_of_event_is_read_as_it_was(tmp_path):
    write(tmp_path / "run" / "metrics.jsonl", EVENTS)
    assert same(read_metrics(tmp_path / "run" / "metrics.jsonl"), EVENTS)


def test_a_line_is_one_object_of_strict_json(tmp_path):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    write(tmp_path / "m", EVENTS)
    lines = (tmp_path / "m").read_bytes().split(b"\n")
    assert lines.pop() == b""
    values = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [value["event"] for value in values] == ["step", "pace", "evaluation", "sample", "step", "alarm"]
    assert (values[4]["loss"], values[4]["norm"]) == ("nan", "inf")


NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=30)
@given(st.builds(StepRecord, st.integers(1, 10**9), NUMBERS, NUMBERS, NUMBERS), st.text(st.characters()))
def test_any_number_and_any_text_is_read_as_it_was(tmp_path_factory, record, text):
    path = tmp_path_factory.mktemp("any") / "m"
    events = [record, Sample(record.step, text, text)]
    write(path, events)
    assert same(read_metrics(path), events)


def test_wherever_the_process_was_killed_whole_lines_are_read_and_the_run_goes_on(tmp_path):
    write(tmp_path / "whole", EVENTS)
    whole, torn = (tmp_path / "whole").read_bytes(), tmp_path / "torn"
    ends = [index for index, byte in enumerate(whole) if byte == ord("\n")]
    cuts = {*range(0, len(whole), 11), *ends, *(end + 1 for end in ends)}
    for cut in sorted(cuts):
        torn.write_bytes(whole[:cut])
        lines = sum(end <= cut for end in ends)  # a line that lacks nothing but its end says all
        assert same(read_metrics(torn), EVENTS[:lines])
        if cut % 5 == 0:
            write(torn, [EVENTS[-1]], step=2)
            assert same(read_metrics(torn), [*EVENTS[:lines], EVENTS[-1]])


def test_zeros_that_a_power_failure_leaves_at_the_end_are_cut_off(tmp_path):
    write(tmp_path / "m", EVENTS[:1])
    with (tmp_path / "m").open("ab") as file:
        file.write(bytes(512))
    assert same(read_metrics(tmp_path / "m"), EVENTS[:1])


def test_a_resumed_run_has_each_step_once(tmp_path):
    def steps(first: int, last: int) -> list[StepRecord]:
        return [StepRecord(step, 1 / step, 1.0, 1e-3) for step in range(first, last + 1)]

    write(tmp_path / "m", [Evaluation(0, 3.0, 20.0, 5, 0.1), *steps(1, 57)])
    write(tmp_path / "m", steps(51, 60), step=50)
    events = read_metrics(tmp_path / "m")
    assert [event.step for event in events] == list(range(61))
    write(tmp_path / "m", steps(1, 3))
    assert [event.step for event in read_metrics(tmp_path / "m")] == [1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [b"{}", b"[]", b'{"event": "step"}', b'{"event": "lunch", "step": 1}', b'{"event": "sample", "steps": 1}',
     b'{"event": "step", "step": 1, "loss": "low", "norm": 1, "lr": 1}', b"\xff",
     b'{"event": "step", "step": "2", "loss": 1, "norm": 1, "lr": 1}',
     b'{"event": "step", "step": 2, "loss": null, "norm": 1, "lr": 1}'],
)  # fmt: skip
def test_a_damaged_line_is_refused_by_its_number(tmp_path, line):
    write(tmp_path / "m", EVENTS[:1])
    with (tmp_path / "m").open("ab") as file:
        file.write(line + b"\n")
    write_more = (lambda: read_metrics(tmp_path / "m"), lambda: JsonLines(tmp_path / "m", 1))
    for act in write_more:
        with pytest.raises(FileError, match="no event") as caught:
            act()
        assert str(caught.value.where).endswith("line 2")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        read_metrics(tmp_path / "none")


def test_a_disk_that_refuses_is_told(tmp_path, monkeypatch):
    def full(descriptor: int, line: bytes) -> int:
        raise OSError(28, "No space left on device")

    lines = JsonLines(tmp_path / "m")
    monkeypatch.setattr("os.write", full)
    with pytest.raises(FileError, match="cannot be written"):
        lines.take(EVENTS[0])
