"""Some faults of a training planted into the bundled GPT-2, trained beside torch, and named; the lab has them all."""

from __future__ import annotations

import pytest

from mindport.debug import verify
from mindport.debug.diagnosis import diagnose
from mindport.debug.diagnosis.training.causes import CAUSES
from mindport.debug.faultlab import trial
from mindport.debug.faults import FAULTS, Ground, applicable, cells, config, training, weights
from mindport.debug.faults.builds import BUILDS
from mindport.debug.faults.steps import LateCosine
from mindport.parity import ours_training
from mindport.sources import resolve
from mindport.weights import convert

TRAINING = {name: fault for name, fault in FAULTS.items() if fault.kind == "training"}
PLANTED = ("batches_early", "label_shift_missing", "tied_one_side", "loss_scale_kept", "eps_before_correction",
           "dropout_on", "schedule_late")  # fmt: skip


@pytest.fixture(scope="module")
def ground(tmp_path_factory) -> Ground:
    """A model of which only the training is looked at."""
    place = tmp_path_factory.mktemp("ground")
    convert(resolve("tiny-gpt2"), place / "converted", progress=False)
    return Ground("tiny-gpt2", resolve("tiny-gpt2"), place / "converted", place / "trace")


def test_a_training_without_a_fault_has_no_cause(ground):
    assert diagnose(ground.trained()).ok


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_named_first_and_where_it_is(ground, name):
    found = trial(FAULTS[name], ground)
    assert (found.rank, found.found) == (1, found.expected), found
    assert found.ok


def test_verify_tells_why_a_training_is_red(monkeypatch):
    monkeypatch.setattr(ours_training, "Cosine", LateCosine)
    found = verify(resolve("tiny-gpt2"), layers=1, steps=2, progress=False)
    assert not found.ok and found.first_divergence is None
    assert [cause.name for cause in found.causes] == ["schedule_late"]
    assert "most likely: the rates come one step late" in found.headline()


def test_no_two_faults_have_one_name():
    assert len(FAULTS) == sum(len(part.FAULTS) for part in (weights, config, cells, training))


def test_every_fault_can_be_built_and_told(ground):
    assert set(BUILDS) == {name for name, fault in TRAINING.items() if fault.feed is None}
    assert {cause for fault in TRAINING.values() for cause in fault.causes} <= set(CAUSES)
    assert len(TRAINING) >= 18
    assert {fault.name for fault in applicable(ground.config, "training")} == set(TRAINING)  # GPT-2 can have them all
