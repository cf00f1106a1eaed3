"""One run of the whole table for all the tests that look at it."""

from __future__ import annotations

import pytest

from mindport.coverage.probe import Answers, probe
from mindport.coverage.table import OPERATORS


@pytest.fixture(scope="session")
def answers() -> Answers:
    return probe(OPERATORS)


@pytest.fixture
def source(tmp_path):
    """Write a source file, and say where it is."""

    def write(text: str | bytes, name: str = "model.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
