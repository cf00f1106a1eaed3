"""A live module is made and called in a process of its own, whatever it does there."""

import pytest

from mindport.coverage.live import is_live, trace
from mindport.errors import BackendError, UsageError

MODEL = """
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.GELU())
        self.attention = nn.MultiheadAttention(4, 2)

    def forward(self, x):
        x = self.layers(x).transpose(0, 1)
        return F.softmax(x @ x.mT + 1, dim=-1)[:, 0]

def with_inputs():
    print("said on stdout")
    return Block(), torch.ones(2, 3, 4)

def with_names():
    return Block(), {"x": torch.ones(2, 3, 4)}

def with_arrays():
    import numpy
    return Block(), [numpy.ones((2, 3, 4), numpy.float32)]

def nothing(): return 3
def needs(argument): return Block()
VALUE = 3
"""
FULL = 240.0


@pytest.fixture
def model(source):
    return source(MODEL)


@pytest.mark.parametrize(("text", "expected"), [("a.b:C", True), ("m.py:f", True), ("a.b", False), ("a:b.c", False)])
def test_a_live_target_has_a_name_after_a_colon(text, expected):
    assert is_live(text) is expected


def test_a_path_with_a_colon_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b").touch()
    assert not is_live("a:b")


@pytest.mark.parametrize("name", ["with_inputs", "with_names", "with_arrays"])
def test_layers_and_calls_are_seen_with_their_lines(model, name, capfd):
    usage = trace(f"{model}:{name}", FULL)
    assert usage.uses[:4] == (
        ("torch.nn.Sequential", "layers"),
        ("torch.nn.Linear", "layers.0"),
        ("torch.nn.GELU", "layers.1"),
        ("torch.nn.MultiheadAttention", "attention"),
    )
    seen = dict(usage.uses)
    assert seen["torch.Tensor.transpose"] == "model.py:13"
    assert seen["torch.nn.functional.softmax"] == "model.py:14"
    assert {"torch.Tensor.mT", "torch.Tensor.__getitem__"} <= seen.keys()
    assert "torch.nn.functional.linear" not in seen, "what a layer calls belongs to the layer"
    assert capfd.readouterr().out == ""


def test_without_inputs_only_the_layers_are_seen_and_that_is_said(model):
    usage = trace(f"{model}:Block", FULL)
    assert {name.split(".")[1] for name, _ in usage.uses} == {"nn"}
    assert usage.notes[0].startswith("no inputs")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("absent", "nothing of that name"),
        ("VALUE", "neither a module nor a function"),
        ("nothing", "makes no torch module"),
        ("needs", "cannot be called without arguments"),
    ],
)
def test_a_target_that_makes_no_module_is_refused(model, name, what):
    with pytest.raises(UsageError, match=what):
        trace(f"{model}:{name}", FULL)


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("raise ValueError('broken at import')", "ValueError: broken at import"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("import os; os._exit(0)", "exit code 0"),
        ("import os; os.abort()", "signal 6"),
        ("import no_such_package", "No module named 'no_such_package'"),
        ("def f(:", "SyntaxError"),
        ("def f(): raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_code_that_stops_itself_is_an_error_with_its_reason(source, text, got):
    with pytest.raises(BackendError) as caught:
        trace(f"{source(text)}:f", FULL)
    assert got in str(caught.value)


def test_code_that_hangs_is_ended_with_all_that_it_started(source):
    path = source("import subprocess, time\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(600)")
    with pytest.raises(BackendError, match="no answer in time"):
        trace(f"{path}:f", 3.0)


@pytest.mark.parametrize("place", ["no_such_module", "no/such/file.py"])
def test_a_place_that_is_not_there_is_refused(place):
    with pytest.raises(UsageError, match="there is no such"):
        trace(f"{place}:f", FULL)
