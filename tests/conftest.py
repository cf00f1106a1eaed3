"""What every test has: a working directory of its own, since MindSpore drops files where it runs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("cwd"))
