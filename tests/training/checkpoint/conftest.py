from __future__ import annotations

from pathlib import Path

import pytest

from mindport.training.checkpoint import Checkpoints
from tests.training.checkpoint.runs import converted, snapshot


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MindPort directory; nobody changes it."""
    return converted(tmp_path_factory.mktemp("model"))


@pytest.fixture
def saved(source: Path, tmp_path: Path) -> Path:
    """A checkpoint of step 5."""
    with Checkpoints(tmp_path / "checkpoints", source, asynchronous=False) as checkpoints:
        return checkpoints.save(snapshot(source, 5), loss=2.5).path
