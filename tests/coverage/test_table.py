"""The table as data: complete rows, names that exist, no name twice."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from mindport.coverage.table import FOLDER, FRAME, OPERATORS, brief, called, frame, full, operator_table

CHECK = """
import sys, json
import numpy as np, torch, mindspore as ms
from mindspore import Parameter, Tensor, mint, nn, ops
names, counterparts = json.loads(sys.stdin.read())
def missing(name, space):
    try: eval(name, space); return False
    except (AttributeError, NameError): return True
import torch.utils.checkpoint
lost = [[n for n in names if missing(n, {"torch": torch})], [c for c in counterparts if missing(c, globals())]]
print(json.dumps(lost))
"""


def test_it_covers_what_gpt_style_code_uses():
    assert len(OPERATORS) >= 150
    assert len({operator.name for operator in OPERATORS}) == len(OPERATORS)


def test_no_row_hides_another_of_the_same_file():
    rows = sum(1 for path in FOLDER.glob("operators/*.yaml") for line in path.read_text().splitlines()
               if line and not line.startswith((" ", "#")))  # fmt: skip
    assert rows == len(OPERATORS)


def test_no_name_stands_in_two_rows():
    names = Counter(name for operator in OPERATORS for name in operator.names)
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if name in FRAME] == []


def test_what_does_not_run_by_itself_says_what_to_do_instead():
    assert [o.name for o in OPERATORS if not o.ms and not (o.instead or o.trap)] == []


def test_a_naive_translation_comes_with_its_trap():
    assert [o.name for o in OPERATORS if o.naive and not o.trap] == []


@pytest.mark.slow
def test_every_name_exists_in_its_framework():
    names = [name for operator in OPERATORS for name in operator.names]
    wanted = json.dumps([names, [ours for ours, _ in FRAME.values() if ours]])
    done = subprocess.run([sys.executable, "-c", CHECK], input=wanted, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [[], []]


@pytest.mark.parametrize(
    ("short", "long", "shown"),
    [
        ("F.gelu", "torch.nn.functional.gelu", "F.gelu"),
        ("nn.Linear", "torch.nn.Linear", "nn.Linear"),
        ("init.normal_", "torch.nn.init.normal_", "init.normal_"),
        ("x.view", "torch.Tensor.view", "Tensor.view"),
        ("torch.optim.AdamW", "torch.optim.AdamW", "torch.optim.AdamW"),
    ],
)
def test_names_are_short_in_the_table_and_in_reports(short, long, shown):
    assert full(short) == long
    assert brief(long) == shown


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("ops.softmax(x, axis=-1)", "ops.softmax"),
        ('load(nn.Dense(4, 5), "w", "b")(x)', "nn.Dense"),
        ("stepped(experimental.optim.AdamW, lr=0.01)", "experimental.optim.AdamW"),
        ("q.swapaxes(1, 2).contiguous()", "Tensor.contiguous"),
        ("x.astype(ms.int32)", "Tensor.astype"),
        ("x[:, :1].squeeze(1)", "Tensor.squeeze"),
        ("w.T", "Tensor.T"),
        ("x * y", "x * y"),
    ],
)
def test_the_counterpart_is_read_off_the_expression(expression, name):
    assert called(expression) == name


def test_a_prefix_stands_for_all_below_it():
    assert frame("torch.cuda.is_available") == frame("torch.cuda")
    assert frame("torch.cudaless") is None


def test_the_list_shows_every_row():
    table = operator_table()
    assert table.ok
    text = table.text(limit=60)
    assert all(operator.name in text for operator in OPERATORS)
    assert "more rows" not in text
