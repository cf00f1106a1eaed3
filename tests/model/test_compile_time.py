"""The measuring command runs each way in a process of its own and reports them."""

from __future__ import annotations

import json

import pytest

from mindport.errors import BackendError
from mindport.model import compile_time


def test_the_command_reports_every_way(capsys, monkeypatch):
    monkeypatch.setattr(compile_time, "WAYS", ("plain", "cache, first process"))
    assert compile_time.main(["--layers", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [row[0] for row in answer["rows"]] == ["plain", "cache, first process"]
    assert all(compile_seconds > forward > 0 for _, compile_seconds, forward in answer["rows"])


def test_a_process_that_fails_is_said(monkeypatch):
    monkeypatch.setattr(compile_time, "WAYS", ("no such way",))
    with pytest.raises(BackendError, match="measuring process failed"):
        compile_time.compile_times(1)
