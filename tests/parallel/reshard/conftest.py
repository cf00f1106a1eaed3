"""Checkpoints that nobody changes, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindport.sources import resolve
from mindport.weights import convert
from tests.parallel.reshard.cases import moved, trained
from tests.training.checkpoint.runs import converted


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny-llama: bfloat16, a head of its own, six heads over two of keys and values."""
    target = tmp_path_factory.mktemp("llama") / "ms"
    convert(resolve("tiny-llama"), target, progress=False)
    return target


@pytest.fixture(scope="session")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training of GPT-2, three layers and a tied head: weights, the optimizer's means, counters."""
    place = tmp_path_factory.mktemp("training")
    return trained(converted(place, "gpt2", vocab_size=38), place / "checkpoints")


@pytest.fixture(scope="session")
def halves(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tiny-llama over two copies of two ranks."""
    target = tmp_path_factory.mktemp("halves") / "dp2tp2"
    moved(llama, target, "dp2,tp2")
    return target
