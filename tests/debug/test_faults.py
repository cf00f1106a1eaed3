"""Every planted fault turns the comparison red, and its first wrong module is named; a right model gives no alarm."""

from __future__ import annotations

import pytest

from mindport.debug import FAULTS, applicable, fault_lab, fingerprints, plant
from mindport.debug.lessons import eps_table
from mindport.errors import FileError, UsageError
from mindport.files import sha256
from mindport.parity import verify
from mindport.weights import load
from mindport.weights.manifest import read_manifest

FAMILIES = ("gpt2-untied-erf", "llama-tied-yarn-bias")  # between them they can have every fault


@pytest.mark.parametrize("name", FAMILIES)
def test_every_fault_is_named(case, name):
    found = case(name)
    lab = fault_lab(found.converted, found.trace)
    assert lab.ok, lab.text()
    assert len(lab.trials) == len(applicable(read_manifest(found.converted).model)) + 1
    signs = {trial.fault: trial.named.sign for trial in lab.trials}
    assert "mask" in signs["no_mask"]
    assert "rotary" in signs.get("theta", "rotary")


def test_the_families_cover_all_faults(case):
    seen = {fault.name for name in FAMILIES for fault in applicable(read_manifest(case(name).converted).model)}
    assert seen == set(FAULTS)


@pytest.mark.parametrize(
    ("name", "fault", "path"),
    [
        ("gpt2-untied-erf", "transpose", "blocks.1.attn.o"),
        ("llama-tied-yarn-bias", "theta", "blocks.0.attn.context"),
    ],
)
def test_verify_says_so(case, tmp_path, name, fault, path):
    found = case(name)
    planted = plant(found.converted, fault, tmp_path / "planted")
    verdict = verify(found.source, planted, found.trace, progress=False)
    assert not verdict.ok
    assert (verdict.first_divergence.path, verdict.first_divergence.local) == (path, True)
    assert path in verdict.headline()


def test_a_planted_directory_is_sound(case, tmp_path):
    converted = case("llama-tied-yarn-bias").converted
    before = {file.name: sha256(file) for file in converted.iterdir()}
    planted = load(plant(converted, "swap", tmp_path / "planted"))  # its digests are checked
    right = load(converted)
    changed = {name for name in right if planted[name].tobytes() != right[name].tobytes()}
    assert changed == {f"blocks.1.attn.{part}" for part in ("k.weight", "v.weight", "k.bias", "v.bias")}
    assert {file.name: sha256(file) for file in converted.iterdir()} == before


def test_neither_the_model_itself_nor_a_folder_of_something_else_is_planted_in(case, tmp_path):
    converted = case("llama-tied-yarn-bias").converted
    with pytest.raises(UsageError, match="planted in a copy"):
        plant(converted, "swap", converted / "." / "", overwrite=True)
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match=r"without mindport\.json"):
        plant(converted, "swap", tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").exists()


def test_faults_that_a_model_cannot_have(case, tmp_path):
    gpt2 = case("gpt2-tied").converted
    with pytest.raises(UsageError, match="no such fault"):
        plant(gpt2, "nothing", tmp_path / "planted")
    with pytest.raises(UsageError, match="cannot have"):
        plant(gpt2, "theta", tmp_path / "planted")
    assert not (tmp_path / "planted").exists()


def test_epsilon_shows_where_activations_are_small():
    errors = [error for _, error in eps_table(1e-5).rows]
    assert errors == sorted(errors)
    assert errors[0] < 1e-5 < errors[-1]


def test_the_fingerprints_are_those_the_notebook_describes():
    theta, mask = fingerprints().values()
    assert theta.path == mask.path == "blocks.0.attn.context" and theta.state == mask.state == "failed"
    assert theta.positions[0] <= theta.limit < theta.positions[-1]
    assert mask.positions[-1] <= mask.limit < mask.positions[0]


def test_the_line_on_the_card_says_what_was_planted_into(case):
    found = case("gpt2-untied-erf")
    (line,) = fault_lab(found.converted, found.trace).properties()
    assert line.how.startswith(f"planted into {found.converted.name}, a gpt2 (and one, no_mask, into the code)")
