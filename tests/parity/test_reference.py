"""The reference says what transformers computes, and nothing that the directory's own settings would add."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
import transformers

from mindport.errors import MappingError
from mindport.parity.reference import Float64, load, record
from mindport.parity.taps import is_residual
from mindport.parity.trace import read_trace


@pytest.fixture
def copied(case, tmp_path):
    return shutil.copytree(case("gpt2-tied").source, tmp_path / "source")


def test_logits_are_the_models_own(case):
    found = case("llama-untied-llama3")
    trace = read_trace(found.trace)
    model = transformers.LlamaForCausalLM.from_pretrained(found.source, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(trace["ids"])).logits.numpy()
    assert np.array_equal(trace["out/logits"], logits)


def test_the_continuation_is_plain_greedy(case, copied, tmp_path):
    """End of text, penalties and sampling in generation_config.json do not count."""
    plain = read_trace(case("gpt2-tied").trace)
    settings = {"eos_token_id": int(plain["greedy"][0, 2]), "repetition_penalty": 5.0, "do_sample": True}
    (copied / "generation_config.json").write_text(json.dumps(settings))
    assert np.array_equal(read_trace(record(copied, tmp_path / "trace"))["greedy"], plain["greedy"])


def test_float64_is_float64_all_the_way():
    """transformers' RMS norm casts to float32 by name; the yardstick must not."""
    norm = transformers.models.llama.modeling_llama.LlamaRMSNorm(16).double()
    x = torch.randn(3, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    right = x / torch.sqrt((x * x).mean(-1, keepdim=True) + norm.variance_epsilon)
    with Float64():
        exact = norm(x)
    assert (exact - right).abs().max() < 1e-14
    assert (norm(x) - right).abs().max() > 1e-9  # without it


def test_the_yardstick_is_near_and_not_nothing(case):
    trace = read_trace(case("llama-tied-yarn-bias").trace)
    for path in trace.about["order"]:
        own = np.abs(trace.missed[f"out/{path}"]).max() / np.abs(trace[f"out/{path}"]).max()
        assert own < 5e-6
        assert own > 0 or path == "embed"
        assert not is_residual(path) or trace.exact(f"far/{path}") is not None


def test_weights_that_are_not_there(case, copied):
    from safetensors.numpy import load_file, save_file

    from mindport.config import read_config

    tensors = load_file(copied / "model.safetensors")
    del tensors["transformer.h.1.ln_1.weight"]
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    report = read_config(copied)
    with pytest.raises(MappingError, match=r"h\.1\.ln_1\.weight"):
        load(copied, report.dialect, report.model)
