"""The reference says what transformers computes, and nothing that the directory's own settings would add."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
import transformers

from mindport.errors import BackendError, MappingError
from mindport.parity import launch, reference
from mindport.parity.inputs import random_ids
from mindport.parity.launch import FAILED
from mindport.parity.reference import Float64, load, record, tokens
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


def _tokenizer(directory, vocab, unknown):
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": unknown})
    )


def test_a_tokenizer_that_knows_no_word_gives_way_to_random_ids(copied):
    from mindport.config import read_config

    config = read_config(copied).model
    _tokenizer(copied, {"[UNK]": 0, "sea": 1}, "[UNK]")
    ids, made_from = tokens(copied, config)
    assert np.array_equal(ids, random_ids(config)) and "only 2 different tokens" in made_from
    assert made_from.startswith("random ids, seed")
    words = dict.fromkeys(["[UNK]", *"the and a boat in of it is level".split()])
    _tokenizer(copied, {word: i for i, word in enumerate(words)}, "[UNK]")
    ids, made_from = tokens(copied, config)
    assert made_from == "two texts" and len(np.unique(ids)) >= 8


@pytest.fixture
def says(monkeypatch, capsys):
    """The last line of the process when `record` raises."""

    def last(error):
        def fail(*args, **options):
            raise error

        monkeypatch.setattr(reference, "record", fail)
        assert reference.main(["--model", "x", "--out", "y"]) == 2
        return capsys.readouterr().err

    return last


def test_a_failure_ends_with_one_line_that_says_why(says):
    err = says(RuntimeError("shapes (3, 4) and (5,)\nan essay\nof torch"))
    assert err.splitlines()[-1] == FAILED + "RuntimeError: shapes (3, 4) and (5,)" and "Traceback" in err
    assert says(KeyError()).splitlines()[-1] == FAILED + "KeyError"
    err = says(MappingError("no weights", where="x", got="y"))
    assert err == FAILED + "MappingError: no weights; where:    x; got:      y\n"


def _process(monkeypatch, code):
    """Let `run_reference` start this code in place of the reference."""

    def start(module, arguments, modules, *, environ, stderr):
        return subprocess.Popen([sys.executable, "-c", code], env=environ, stderr=stderr)

    monkeypatch.setattr(launch, "start", start)


@pytest.mark.parametrize(("code", "got"), [
    (f"import sys; print('noise', file=sys.stderr); sys.exit('{FAILED}KeyError: 3')", "KeyError: 3"),
    ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
    ("import os; os.kill(os.getpid(), 9)", "signal 9 (Killed): the system ended it, perhaps for want of memory"),
    ("import os; os.abort()", "signal 6 (Aborted)"),
    ("raise SystemExit(3)", "it said nothing"),
])  # fmt: skip
def test_the_user_gets_one_line_of_a_process_that_failed(code, got, case, tmp_path, monkeypatch, capfd):
    _process(monkeypatch, code)
    with pytest.raises(BackendError) as caught:
        launch.run_reference(case("gpt2-tied").source, tmp_path / "trace")
    assert caught.value.got == got and FAILED not in capfd.readouterr().err


def test_weights_that_are_not_there(case, copied):
    from safetensors.numpy import load_file, save_file

    from mindport.config import read_config

    tensors = load_file(copied / "model.safetensors")
    del tensors["transformer.h.1.ln_1.weight"]
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    report = read_config(copied)
    with pytest.raises(MappingError, match=r"h\.1\.ln_1\.weight"):
        load(copied, report.dialect, report.model)


def test_beside_a_model_of_nan_nothing_is_right(copied, tmp_path):
    from safetensors.numpy import load_file, save_file

    tensors = load_file(copied / "model.safetensors")
    tensors["transformer.h.1.ln_1.weight"][0] = np.nan
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(BackendError, match=r"NaN or infinities(.|\n)*blocks\.1\.norm1(.|\n)*mindport convert"):
        record(copied, tmp_path / "trace")
    assert not (tmp_path / "trace").exists()
