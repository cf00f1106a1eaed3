"""Launches without MindSpore: everything of ours, over an msrun that starts in no time."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mindport.parallel.launch import LaunchReport, launch
from mindport.processes import PACKAGE

STAND_IN = Path(__file__).with_name("stand_in")
ENVIRON = {"PYTHONPATH": os.pathsep.join((str(STAND_IN), str(PACKAGE)))}


@pytest.fixture
def lines() -> list[str]:
    """What a launch says."""
    return []


@pytest.fixture
def start(tmp_path: Path, lines: list[str]) -> Callable[..., LaunchReport]:
    """Launch a script's text."""

    def start(text: str, *arguments: str, workers: int = 2, **options: Any) -> LaunchReport:
        script = tmp_path / "folder of scripts" / "job.py"
        script.parent.mkdir(exist_ok=True)
        script.write_text("import os, sys, time, signal\nrank = int(os.environ['RANK_ID'])\n" + text)
        environ = {**ENVIRON, **options.pop("environ", {})}
        return launch(script, arguments, workers=workers, log_dir=tmp_path / "logs", say=lines.append, environ=environ,
                      **{"timeout": 60, **options})  # fmt: skip

    return start
