"""What a name means: imports and aliases are followed, what hides them is seen, and nothing is run."""

import ast

import pytest

from mindport.coverage.names import Names


def names(text, package=()):
    found = Names(package)
    found.visit(ast.parse(text))
    return [name.removeprefix("torch.") for name, _ in found.found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ntorch.softmax(x, -1)", ["softmax"]),
        ("import torch as t\nt.nn.functional.gelu(x)", ["nn.functional.gelu"]),
        ("import torch.nn.functional as F\nF.gelu(x)", ["nn.functional.gelu"]),
        ("import torch.nn as nn\nnn.Linear(1, 2)", ["nn.Linear"]),
        ("from torch import nn\nnn.functional.silu(x)", ["nn.functional.silu"]),
        ("from torch.nn import functional as G\nG.silu(x)", ["nn.functional.silu"]),
        ("from torch.nn.functional import softmax as s\ns(x)", ["nn.functional.softmax"]),
        ("import torch\nF = torch.nn.functional\nF.relu(x)", ["nn.functional", "nn.functional.relu"]),
        ("from torch import nn\nTABLE = {'gelu': nn.GELU}", ["nn.GELU"]),
        ("from torch import nn\nclass A(nn.Module): pass", ["nn.Module"]),
        ("from torch.nn.modules.linear import Linear\nLinear(1, 2)", ["nn.Linear"]),
        ("from torch import Tensor\ndef f(x: Tensor) -> Tensor: return x", []),
        ("from torch.nn.functional import *\nsoftmax(x)\nprint(x)\nmine(x)", ["nn.functional.softmax"]),
        ("try:\n import torch.nn.functional as F\nexcept ImportError:\n F = None\nF.gelu(x)", ["nn.functional.gelu"]),
    ],
)
def test_names_are_resolved(text, expected):
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.view(2).transpose(0, 1).contiguous()", ["contiguous", "transpose", "view"]),
        ("self.weight.t()", ["t"]),
        ("w.T + a @ b", ["T", "__matmul__"]),
        ("x.split(4, dim=-1)\ny = x.split(4, dim=-1)", ["split"]),  # a result that nobody wants is no tensor's
        ("torch.zeros(3).sum()", ["sum"]),
        ("y = torch.zeros(3)\ny.sum()", ["sum"]),
    ],
)
def test_methods_of_unknown_objects_count_as_a_tensors(text, expected):
    found = names("import torch\n" + text)
    assert [name.removeprefix("Tensor.") for name in found if name.startswith("Tensor.")] == expected


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nnp.mean(y)\nz = np.zeros(3)\nz.sum()",
        "import math\nmath.sqrt(2)",
        "import logging\nlogger = logging.getLogger()\nlogger.log(3)",
        "'a b'.split(3)",
        "line.split(',')",
        "line.split()",
        "seen.add(x)",
        "rows.sort(key)",
        "self.dropout(x)\nself.split(x)",
        "super().expand(3)",
        "[1].sort(2)",
        "import os\nos.path.split(4)",
    ],
)
def test_other_peoples_methods_do_not(text):
    assert [name for name in names("import torch\n" + text) if name.startswith("Tensor.")] == []


def test_a_parameter_hides_an_import():
    assert names("import torch\ndef f(torch): return torch.relu(1)\ntorch.relu(2)") == ["Tensor.relu", "relu"]


def test_relative_imports_are_those_of_the_package():
    text = "from ..functional import gelu\nfrom .linear import Linear\ngelu(Linear(1, 2)(x))"
    assert names(text, ("torch", "nn", "modules")) == ["nn.functional.gelu", "nn.Linear"]
    assert names(text, ("mine",)) == []


def test_a_method_proves_nothing_without_torch():
    found = Names()
    found.visit(ast.parse("x.view(2)"))
    assert found.found and not found.has_torch
