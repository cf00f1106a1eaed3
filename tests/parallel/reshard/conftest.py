"""Checkpoints that nobody changes, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parallel.reshard.cases import converted, moved, trained


@pytest.fixture(scope="session")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted("tiny-gpt2", tmp_path_factory.mktemp("gpt2") / "ms")


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted("tiny-llama", tmp_path_factory.mktemp("llama") / "ms")


@pytest.fixture(scope="session")
def training(gpt2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of tiny-gpt2: weights, the optimizer's means, counters."""
    return trained(gpt2, tmp_path_factory.mktemp("training"))


@pytest.fixture(scope="session")
def halves(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny-llama over two copies of two ranks."""
    target = tmp_path_factory.mktemp("halves") / "dp2tp2"
    moved(llama, target, "dp2,tp2")
    return target
