"""Progress: on stderr, seldom, never on stdout."""

from __future__ import annotations

import time

import pytest

from mindport.weights.progress import progress


def test_a_long_job_says_a_line_each_tenth(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 2))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with progress("converting", 1000) as advance:
        for _ in range(100):
            advance(10)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 10 and "10 %" in lines[0] and "100 %" in lines[-1]


@pytest.mark.parametrize("show", [True, False])
def test_a_short_job_says_nothing(show: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("converting", 10, show=show) as advance:
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress("converting", 10) as advance:
        advance(10)
    out, err = capsys.readouterr()
    assert out == "" and "converting" in err and "100%" in err
