"""What every test has: a working directory of its own, since MindSpore drops files where it runs, and no clock."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# on a busy machine an example may take any time, and that says nothing about the code
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")


@pytest.fixture(autouse=True)
def _own_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))
