"""A vocabulary whose last rows are padding: compared on every row, with tokens of the true vocabulary only."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers

from mindport import cli
from mindport.config import DIALECTS
from mindport.errors import ConfigError, UsageError
from mindport.parity import verify
from mindport.parity.inputs import random_ids
from mindport.parity.launch import run_reference
from mindport.parity.reference import record
from mindport.parity.trace import read_trace
from mindport.weights import convert, verify_round_trip
from mindport.weights.manifest import read_manifest
from tests.families import FAMILIES, build
from tests.parity.test_inventory import edited, nudge

TRUE, ROWS = 37, 64
NAMES = ("gpt2", "llama")  # tied and untied


@pytest.fixture(scope="module")
def padded(tmp_path_factory):
    """name → a model whose class has 64 rows, whose config.json says 37; its conversion; its trace."""
    made = {}

    def get(name):
        if name not in made:
            place = tmp_path_factory.mktemp("padded")
            family, settings = FAMILIES[name]
            build(family, {**settings, "vocab_size": ROWS}).save_pretrained(place / "source")
            config = json.loads((place / "source/config.json").read_text())
            (place / "source/config.json").write_text(json.dumps({**config, "vocab_size": TRUE}))
            convert(place / "source", place / "converted", padded_vocab=ROWS, progress=False)
            trace = record(place / "source", place / "trace", padded_vocab=ROWS)
            made[name] = SimpleNamespace(source=place / "source", converted=place / "converted", trace=trace)
        return made[name]

    return get


@pytest.mark.parametrize("name", NAMES)
def test_it_is_right_on_every_row_and_comes_back_byte_for_byte(padded, name):
    case = padded(name)
    report, trace = verify(case.source, case.converted, case.trace, progress=False), read_trace(case.trace)
    assert report.ok, report.text()
    assert trace["out/logits"].shape[-1] == ROWS and trace["ids"].max() < TRUE
    assert report.loss_of_nothing == pytest.approx(np.log(ROWS))
    assert verify_round_trip(case.source, case.converted, progress=False).identical == ("model.safetensors",)
    model = read_manifest(case.converted).model
    assert (model.vocab_size, model.padded_vocab) == (TRUE, ROWS)


@pytest.mark.parametrize("name", NAMES)
def test_the_logits_are_those_of_the_class_with_all_rows(padded, name):
    case = padded(name)
    kind = getattr(transformers, DIALECTS[FAMILIES[name][0]].architecture)
    settings = kind.config_class.from_pretrained(case.source, vocab_size=ROWS)
    trace, model = read_trace(case.trace), kind.from_pretrained(case.source, config=settings).eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(trace["ids"])).logits.numpy()
    assert np.abs(logits - trace["out/logits"]).max() < 1e-5
    assert np.abs(logits[..., TRUE:]).min() > 0


def test_a_wrong_row_of_the_padding_is_seen(padded, tmp_path):
    case = padded("llama")
    wrong = edited(case, tmp_path / "wrong", weights=nudge("head.weight", (ROWS - 2, 3)))
    report = verify(case.source, wrong, case.trace, progress=False)
    assert not report.ok and report.inventory.tensors == ("head.weight",)
    assert not report.logits.ok


def test_the_whole_way_with_a_process_of_its_own(padded):
    assert cli.main(["verify", str(padded("llama").source), "--padded-vocab", str(ROWS), "--layers", "1"]) == 0


def test_another_declaration_is_refused(padded, tmp_path):
    case = padded("llama")
    with pytest.raises(UsageError, match=r"another padding(.|\n)*expected: 64"):
        verify(case.source, case.converted, padded_vocab=96, progress=False)
    with pytest.raises(ConfigError, match="--padded-vocab 64"):
        verify(case.source, progress=False)
    with pytest.raises(ConfigError, match="--padded-vocab 64"):
        run_reference(case.source, tmp_path / "trace", progress=False)


def test_drawn_tokens_are_tokens(padded):
    drawn = random_ids(read_manifest(padded("llama").converted).model)
    assert drawn.max() == TRUE - 1
