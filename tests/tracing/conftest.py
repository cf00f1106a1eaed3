"""The user's traces, made once, each in a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mindport.tracing import trace
from tests.tracing import users


@pytest.fixture(scope="session")
def traced(tmp_path_factory) -> Callable[[str], Path]:
    """The function's name → its trace; `torch` is the torch module with its weights saved for the twin."""
    folder = tmp_path_factory.mktemp("users")
    torch_file, mindspore_file = users.write(folder)
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            if name != "torch":
                get("torch")  # writes the weights
            here = Path.cwd()
            os.chdir(folder)
            try:
                what = f"{torch_file}:saved" if name == "torch" else f"{mindspore_file}:{name}"
                trace(what, folder / f"trace-{name}")
            finally:
                os.chdir(here)
            made[name] = folder / f"trace-{name}"
        return made[name]

    return get
