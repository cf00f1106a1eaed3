"""Names behind a wrapper's prefix: the class finds its weights all the same, and only the right ones."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
import torch
from safetensors import torch as torch_files
from safetensors.numpy import load_file, save_file

from mindport.config import read_config
from mindport.errors import MappingError
from mindport.parity import verify
from mindport.parity.reference import load, record
from mindport.weights import convert
from tests.parity.test_inventory import edited, nudge

WRAPPER = "module._orig_mod."
MODELS = ("gpt2-tied", "llama-untied-llama3")


def wrap(source, to, wrapper=WRAPPER, change=lambda tensors: None):
    """A copy of a model whose names all begin with a wrapper's prefix."""
    shutil.copytree(source, to)
    tensors = load_file(to / "model.safetensors")
    change(tensors)
    named = {wrapper + name: x for name, x in tensors.items()}
    save_file(named, to / "model.safetensors", metadata={"format": "pt"})
    return to


def loaded(directory):
    report = read_config(directory)
    return load(directory, report.dialect, report.model)


@pytest.mark.parametrize("name", MODELS)
def test_a_wrapped_model_is_verified_and_a_wrong_tensor_is_red(name, case, tmp_path):
    source = wrap(case(name).source, tmp_path / "source")
    convert(source, tmp_path / "converted", progress=False)
    trace = record(source, tmp_path / "trace")
    assert (found := verify(source, tmp_path / "converted", trace, progress=False)).ok, found.text()
    case = SimpleNamespace(converted=tmp_path / "converted")
    wrong = edited(case, tmp_path / "wrong", weights=nudge("blocks.1.mlp.down.weight", (2, 3)))
    red = verify(source, wrong, trace, progress=False)
    assert not red.ok and red.first_divergence.path == "blocks.1.mlp.down"
    assert red.inventory.tensors == ("blocks.1.mlp.down.weight",)


@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.module.", "model.", "transformer."])
@pytest.mark.parametrize("name", MODELS)
def test_every_wrapper_comes_off_and_every_value_stays(name, wrapper, case, tmp_path):
    plain, wrapped = loaded(case(name).source), loaded(wrap(case(name).source, tmp_path / "source", wrapper))
    right = plain.state_dict()
    assert right.keys() == wrapped.state_dict().keys()
    assert all(torch.equal(x, right[key]) for key, x in wrapped.state_dict().items())
    shared = wrapped.lm_head.weight is wrapped.get_input_embeddings().weight
    assert shared == plain.config.tie_word_embeddings and not wrapped.training


def test_the_first_layers_of_a_wrapped_model(case, tmp_path):
    report = read_config(wrap(case("gpt2-tied").source, tmp_path / "source"))
    found = load(tmp_path / "source", report.dialect, report.model.with_layers(2)).state_dict()
    right = loaded(case("gpt2-tied").source).state_dict()
    assert found.keys() == {key for key in right if ".h.2." not in key}
    assert all(torch.equal(x, right[key]) for key, x in found.items())


def test_half_precision_behind_a_wrapper_is_widened(case, tmp_path):
    directory = tmp_path / "half"
    loaded(case("gpt2-tied").source).bfloat16().save_pretrained(directory)
    right = loaded(directory).state_dict()
    shutil.copytree(directory, tmp_path / "wrapped")
    named = {WRAPPER + name: x for name, x in torch_files.load_file(directory / "model.safetensors").items()}
    torch_files.save_file(named, tmp_path / "wrapped/model.safetensors")
    found = loaded(tmp_path / "wrapped").state_dict()
    assert all(x.dtype == torch.float32 and torch.equal(x, right[key]) for key, x in found.items())


@pytest.mark.parametrize("name", MODELS)
def test_weights_that_are_missing_behind_a_wrapper(name, case, tmp_path):
    lost = {"gpt2-tied": "transformer.h.1.ln_1.weight", "llama-untied-llama3": "lm_head.weight"}[name]
    source = wrap(case(name).source, tmp_path / "source", change=lambda tensors: tensors.pop(lost))
    with pytest.raises(MappingError, match=lost):
        loaded(source)


def test_weights_of_another_shape_behind_a_wrapper(case, tmp_path):
    def cut(tensors):
        tensors["model.norm.weight"] = tensors["model.norm.weight"][:-1].copy()

    source = wrap(case("llama-untied-llama3").source, tmp_path / "source", change=cut)
    with pytest.raises((MappingError, RuntimeError), match="size"):
        loaded(source)
