"""A planted fault leaves a sound directory, and only where it should be."""

from __future__ import annotations

import numpy as np
import pytest

from mindport.debug import FAULTS, applicable, plant
from mindport.debug.faultlab import homes
from mindport.debug.faults.patches import PATCHES
from mindport.errors import FileError, UsageError
from mindport.files import sha256
from mindport.weights import load
from mindport.weights.manifest import read_manifest


def test_a_planted_directory_is_sound(ground, tmp_path):
    converted = ground("qwen2-padded").converted
    before = {file.name: sha256(file) for file in converted.iterdir()}
    planted = load(plant(converted, "swap", tmp_path / "planted"))  # its digests are checked
    right = load(converted)
    changed = {name for name in right if planted[name].tobytes() != right[name].tobytes()}
    assert changed == {f"blocks.1.attn.{part}" for part in ("k.weight", "v.weight", "k.bias", "v.bias")}
    assert {file.name: sha256(file) for file in converted.iterdir()} == before


def test_a_fault_of_the_configuration_changes_no_number(ground, tmp_path):
    converted = ground("tiny-llama").converted
    planted = plant(converted, "theta", tmp_path / "planted")
    assert all(np.array_equal(array, load(planted)[name]) for name, array in load(converted).items())
    wrong, right = (read_manifest(directory).model.rope for directory in (planted, converted))
    assert wrong.rope_theta == 4 * right.rope_theta


def test_neither_the_model_itself_nor_a_folder_of_something_else_is_planted_in(ground, tmp_path):
    converted = ground("tiny-llama").converted
    with pytest.raises(UsageError, match="planted in a copy"):
        plant(converted, "swap", converted / "." / "", overwrite=True)
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match=r"without mindport\.json"):
        plant(converted, "swap", tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("name", "says"), [("nothing", "no such fault"), ("theta", "cannot have"), ("no_mask", "cannot")]
)
def test_faults_that_a_model_cannot_have_are_refused(ground, tmp_path, name, says):
    with pytest.raises(UsageError, match=says):
        plant(ground("tiny-gpt2").converted, name, tmp_path / "planted")
    assert not (tmp_path / "planted").exists()


def test_every_fault_has_a_model_and_every_patch_a_fault(grounds):
    assert [name for name, fault in FAULTS.items() if not homes(fault, grounds)] == []
    assert {name for name, fault in FAULTS.items() if fault.code} == PATCHES.keys()
    assert len([fault for fault in FAULTS.values() if fault.kind == "forward"]) >= 28


def test_each_part_of_the_model_is_right_again_afterwards():
    from mindport.model import gpt
    from mindport.model.kernels.attention import Reference

    before = vars(gpt.Block)["construct"], gpt.score_scale
    for name in ("post_norm", "scale_width", "no_mask"):
        with FAULTS[name].block():
            pass
    assert (vars(gpt.Block)["construct"], gpt.score_scale) == before
    import sys

    assert sys.modules["mindport.model.kernels.attention"].Reference is Reference


def test_what_a_model_can_have_follows_from_its_configuration(ground):
    assert "kv_tiled" in {fault.name for fault in applicable(ground("tiny-llama").config)}
    assert "kv_tiled" not in {fault.name for fault in applicable(ground("tiny-gpt2").config)}
