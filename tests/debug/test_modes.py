"""What Graph mode does otherwise is what the table says, and errors that come late come at once when asked to."""

from __future__ import annotations

import mindspore as ms
import pytest

from mindport.debug import late_errors, late_program
from mindport.debug.modes import DIFFERENCES, compare_modes
from mindport.errors import UsageError


def test_both_modes_do_what_was_recorded():
    before = ms.get_context("mode")
    report = compare_modes()
    assert report.ok, report.text()
    assert ms.get_context("mode") == before
    silent = {row.name for row in report.rows if not row.same and not any("Error" in said for said in row.said)}
    assert silent == {"attribute", "global", "list", "random", "print"}


def test_another_behaviour_turns_it_red(monkeypatch):
    from dataclasses import replace

    monkeypatch.setitem(DIFFERENCES, "branch", replace(DIFFERENCES["branch"], expected=("2 and -3", "2 and -2")))
    report = compare_modes("branch")
    assert not report.ok and "not as recorded: branch" in report.headline()


def test_an_unknown_case_is_refused():
    with pytest.raises(UsageError, match="no such case"):
        compare_modes("goto")


def test_the_guilty_line_is_named_only_when_operators_are_waited_for():
    late = late_errors()
    queued, blocking = late.runs
    assert not queued.right and queued.line > blocking.line
    assert blocking.right and late.ok
    assert queued.message == blocking.message
    assert late_program().splitlines()[blocking.line - 1].strip() == blocking.code
