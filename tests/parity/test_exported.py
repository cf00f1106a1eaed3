"""A checkpoint beside its export in transformers: equal, and red where the export is not the checkpoint."""

from __future__ import annotations

import dataclasses

import pytest
from safetensors.numpy import load_file, save_file

from mindport.errors import FileError
from mindport.parity import exported
from mindport.parity.exported import allowed, check_export
from mindport.parity.reference import record

NAME = "llama-untied-llama3"


@pytest.fixture
def in_this_process(monkeypatch):
    """torch runs here, as in `case`."""

    def run(directory, out, *, progress, allow, padded_vocab):
        return record(directory, out, allow=allow, padded_vocab=padded_vocab)

    monkeypatch.setattr(exported, "run_reference", run)


def test_an_export_is_the_checkpoint_and_a_changed_one_is_not(case, tmp_path, in_this_process):
    checkpoint, target = case(NAME).converted, tmp_path / "exported"
    report = check_export(checkpoint, target, progress=False)
    assert report.ok and report.error <= 1e-5 and sum(map(len, report.ours)) > 20, report.text()
    assert report.exported == str(target) and [line.state for line in report.properties()] == ["verified"]
    other = dataclasses.replace(report, ours=tuple((token + 1, *row) for token, *row in report.ours))
    assert not other.ok and "greedy tokens differ" in other.headline()
    weights = load_file(target / "model.safetensors")
    weights["model.layers.1.mlp.down_proj.weight"] = weights["model.layers.1.mlp.down_proj.weight"] * 1.01
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    changed = check_export(checkpoint, target, progress=False)
    assert not changed.ok and changed.error > 10 * changed.limit and "another model" in changed.headline()


def test_large_logits_are_held_relative_to_the_largest():
    assert allowed(scale=1.0, own=1e-6) == 1e-4
    assert allowed(scale=1.0, own=1e-4) == 4e-4
    assert allowed(scale=40.0, own=1e-6) == pytest.approx(4e-4)


def test_a_target_of_something_else_is_refused(case, tmp_path):
    (tmp_path / "mine").write_text("")
    with pytest.raises(FileError, match="no exported checkpoint"):
        check_export(case(NAME).converted, tmp_path, progress=False)
