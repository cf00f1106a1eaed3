"""A few steps on one batch: a sound model learns it, a part that is detached is named."""

from __future__ import annotations

import math

import mindspore as ms
import pytest

from mindport.debug import plant_hidden, smoke_run
from mindport.debug.modes import mode
from mindport.errors import UsageError


@pytest.fixture(autouse=True)
def _pynative():
    with mode(ms.PYNATIVE_MODE):
        yield


def test_a_model_learns_one_batch():
    run = smoke_run(plant_hidden(0, level=3).model, steps=4)
    assert run.ok, run.text()
    assert run.losses[-1] < run.losses[0]
    assert run.loss_of_nothing == pytest.approx(math.log(768))
    assert run.without == ()


def test_what_gets_no_gradient_is_named():
    puzzle = plant_hidden(0, level=2)
    run = smoke_run(puzzle.model, steps=2)
    assert not run.ok
    assert any(name.startswith(f"{puzzle.answer}.") for name in run.without)
    assert "no gradient reaches" in run.headline()


def test_a_rate_of_nothing_is_seen():
    assert not smoke_run(plant_hidden(0, level=3).model, steps=2, rate=0.0).ok


def test_one_step_shows_nothing():
    with pytest.raises(UsageError, match="one step"):
        smoke_run(plant_hidden(0, level=3).model, steps=1)
