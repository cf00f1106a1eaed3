"""What a few tokens cannot show turns the verdict red all the same."""

from __future__ import annotations

import copy
import dataclasses
import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mindport.config import Rope
from mindport.files import sha256
from mindport.parity import verify
from mindport.parity.inventory import take
from mindport.parity.trace import read_trace, write_trace
from mindport.results import plain
from mindport.weights import convert
from mindport.weights.manifest import read_manifest, write_manifest


def edited(case, to, *, config=None, weights=None):
    """A copy of a conversion with another configuration or other weights, whose digests are right."""
    shutil.copytree(case.converted, to)
    manifest, file = read_manifest(to), to / "model.safetensors"
    if weights:
        arrays = load_file(file)
        weights(arrays)
        save_file(arrays, file)
    files = {file.name: {"sha256": sha256(file), "bytes": file.stat().st_size}}
    model = dataclasses.replace(manifest.model, **config) if config else manifest.model
    write_manifest(to, dataclasses.replace(manifest, model=model, files=files))
    return to


def nudge(name, at):
    def change(arrays):
        arrays[name] = arrays[name].copy()
        arrays[name][at] += 1.0

    return change


LONGROPE = Rope(rope_type="longrope", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=16,
                short_factor=(1.0, 1.1, 1.3), long_factor=(1.2, 2.5, 4.5))  # fmt: skip
HIDDEN = {
    "a small epsilon": ("llama-untied-llama3", {"config": {"norm_eps": 1.001e-6}}, "norm_eps"),
    "a longer context": ("llama-untied-llama3", {"config": {"max_position_embeddings": 4096}}, "max_position"),
    "whole heads rotated": ("gpt_neox", {"config": {"rotary_dim": None}}, "rotary_dim"),
    "another window": ("mistral", {"config": {"window": (5, 5, 6)}}, "window"),
    "a longrope divisor": ("phi3 longrope", {"config": {"rope": LONGROPE}}, "long_factor"),
    "dropout": ("gpt2-tied", {"config": {"attn_pdrop": 0.5}}, "attn_pdrop"),
}  # fmt: skip


@pytest.mark.parametrize("fault", HIDDEN)
def test_a_hidden_fault_is_named(case, tmp_path, fault):
    name, change, word = HIDDEN[fault]
    model = case(name)
    found = verify(model.source, edited(model, tmp_path / "edited", **change), model.trace, progress=False)
    assert not found.ok
    assert word in found.headline() or word in str(found.inventory.fields)
    json.dumps(plain(found.as_dict()), allow_nan=False)


def test_a_row_of_the_embedding_that_no_token_uses(case, tmp_path):
    model = case("llama-untied-llama3")  # its head is apart: the row takes part in nothing
    ids, rows = read_trace(model.trace)["ids"], read_manifest(model.converted).model.vocab_size
    unused = next(row for row in range(rows) if row not in ids)
    wrong = edited(model, tmp_path / "edited", weights=nudge("embed.weight", unused))
    found = verify(model.source, wrong, model.trace, progress=False)
    assert found.first_divergence is None and found.logits.ok
    assert not found.ok and found.inventory.tensors == ("embed.weight",)
    assert "embed.weight" in found.headline()


def test_a_wrong_angle_far_away_is_red(case):
    from mindport.parity.ours import observe

    model = case("llama-dynamic")
    reference = read_trace(model.trace)
    ours = observe(model.converted, reference, forward_only=True)
    far = copy.copy(ours)
    far.arrays = {**ours.arrays, "rope/64": ours["rope/64"] + np.float32(1e-4)}
    assert take(model.converted, reference, ours).ok
    assert "sequences of 64" in "; ".join(take(model.converted, reference, far).faults())


def test_another_precision_is_compared_with_the_source_brought_to_it(case, tmp_path):
    model = case("gpt2-tied")
    convert(model.source, tmp_path / "half", dtype="float16", progress=False)
    reference = read_trace(model.trace)
    found = take(tmp_path / "half", reference, reference)
    assert found.ok and found.compared == len(reference.about["tensors"])


def test_without_the_source_another_precision_is_said_to_be_untried(case, tmp_path):
    model = case("gpt2-tied")
    convert(model.source, tmp_path / "half", dtype="float16", progress=False)
    reference = copy.copy(read_trace(model.trace))
    reference.about = {**reference.about, "source": {**reference.about["source"], "path": str(tmp_path / "gone")}}
    states = {line.name: line.state for line in take(tmp_path / "half", reference, reference).properties()}
    assert states["every parameter is the source's"] == "skipped"


def test_a_part_of_the_layers_is_called_a_part(case, tmp_path):
    from mindport.parity.reference import record

    model = case("gpt2-tied")
    found = verify(model.source, model.converted, record(model.source, tmp_path / "trace", layers=1), progress=False)
    assert found.ok and "the first 1 of 3 layers" in found.headline()
    assert [line.name for line in found.properties() if line.state == "not verified"] == ["the layers after that agree"]


def test_other_weight_files_beside_the_model_do_not_matter(case, tmp_path):
    """A stray consolidated file, or a .bin beside the safetensors, is no other model."""
    model = case("gpt2-tied")
    shutil.copytree(model.source, tmp_path / "source")
    shutil.copy(tmp_path / "source" / "model.safetensors", tmp_path / "source" / "consolidated.safetensors")
    from mindport.parity.identity import identity, same_model

    found = identity(tmp_path / "source")
    assert list(found["weights"]) == ["model.safetensors"]
    same_model(found, model.converted)


def test_a_trace_is_written_with_what_it_needs(case, tmp_path):
    trace = read_trace(case("gpt2-tied").trace)
    assert {"whole", "tensors"} <= trace.about.keys()
    assert read_trace(write_trace(trace, tmp_path / "again")).about["tensors"] == trace.about["tensors"]
