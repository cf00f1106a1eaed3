"""A model, its trace and its conversion, made once for all tests that look at it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import pytest

from mindport.parity.steps import Mode
from mindport.parity.trace import Trace, read_trace
from tests.parity.models import make


@dataclass(frozen=True)
class Case:
    source: Path
    converted: Path
    trace: Path


@pytest.fixture(scope="session")
def case(tmp_path_factory):
    """name → Case; torch runs in this process here, and in one of its own in the tests that are about that."""
    made: dict[str, Case] = {}

    def get(name: str) -> Case:
        if name not in made:
            from mindport.parity.reference import record
            from mindport.weights import convert

            place = tmp_path_factory.mktemp(name)
            source = make(name, place / "source")
            convert(source, place / "converted", progress=False)
            made[name] = Case(source, place / "converted", record(source, place / "trace"))
        return made[name]

    return get


@dataclass(frozen=True)
class Trained:
    """Both trainings of one case."""

    case: Case
    reference: Trace
    ours: Trace


@pytest.fixture(scope="session")
def trained(case, tmp_path_factory):
    """(name, steps, the only mode) → Trained, each once; torch and MindSpore share the process here, as in `case`."""

    @functools.cache
    def get(name: str, steps: int, only: Mode | None = None) -> Trained:
        from mindport.parity.ours_training import observe_training
        from mindport.parity.reference_training import record

        made = case(name)
        reference = read_trace(record(made.source, tmp_path_factory.mktemp(name) / "training", steps=steps))
        return Trained(made, reference, observe_training(made.converted, reference, only=only))

    return get
