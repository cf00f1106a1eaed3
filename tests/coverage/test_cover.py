"""The verdict: shares against the rule, what to replace first, names that nobody knows."""

import json

import pytest

from mindport import cli
from mindport.coverage import cover, report
from mindport.coverage.probe import Found, Outcome, Tried
from mindport.coverage.report import CoverageReport, Row
from mindport.coverage.table import BY_NAME

SOURCE = """
import torch
from torch import nn
import torch.nn.functional as F

class Attention(nn.Module):
    def forward(self, q, k, v):
        out = F.scaled_dot_product_attention(q, k, v)
        out = torch.no_such_operator(torch.special.i0e(out))
        return out.view(3).unheard_of(1).transpose(0, 1).contiguous().cuda()
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "attention.py"
    path.write_text(SOURCE)
    return cover(path)


def row(result, name):
    return next(row for row in result.rows if row.operator == name)


def test_each_operator_is_in_its_state(found):
    assert {row.operator: row.state for row in found.rows} == {
        "scaled dot-product attention": "absent",
        "torch.no_such_operator": "not in torch",
        "torch.special.i0e": "not in the table",
        "view": "runs",
        "transpose": "runs",
        "contiguous": "runs",
    }
    assert row(found, "scaled dot-product attention").replaced.runs
    assert row(found, "view").places == ("attention.py:10",)


def test_names_that_are_no_operators_are_listed_and_not_counted(found):
    assert {other.name: other.counterpart for other in found.others} == {
        "nn.Module": "nn.Cell", "Tensor.cuda": "ms.set_device",
    }  # fmt: skip


def test_above_the_rule_the_verdict_is_no(found):
    assert not found.ok
    assert found.operator_share == found.use_share == 0.5
    assert "3 (50.0%) in 3 (50.0%) are not supported on this CPU, the rule allows 20%" in found.headline()
    assert [table.title for table in found.tables()] == ["replace first", "runs", "no operators"]
    assert found.properties()[0].state == "failed"
    assert json.dumps(found.as_dict()["rows"])


def made(states, uses=1):
    rows = [Row(f"o{n}", state, "–", ("a:1",) * uses) for n, state in enumerate(states)]
    return CoverageReport("target", "CPU", 1, tuple(rows))


def test_the_rule_is_about_both_shares():
    assert made(["runs"] * 4 + ["absent"]).ok, "a fifth is allowed"
    assert not made(["runs"] * 3 + ["absent"]).ok
    often = Row("often", "no kernel", "–", ("a:1",) * 3)
    few = CoverageReport("target", "CPU", 1, (*made(["runs"] * 9).rows, often))
    assert few.operator_share == 0.1 and few.use_share == 0.25
    assert not few.ok


@pytest.mark.parametrize("state", ["wrong value", "wrong gradient", "no gradient", "no kernel", "fails", "crashes",
                                   "absent", "not in the table", "not in torch"])  # fmt: skip
def test_whatever_does_not_run_and_equal_torch_is_not_supported(state):
    assert not made([state]).ok


def test_a_file_that_was_not_read_forbids_a_yes():
    whole = made(["runs"])
    lost = CoverageReport("target", "CPU", 2, whole.rows, unread=(("b.py", "not Python source"),))
    assert whole.ok and not lost.ok
    assert "1 of 2 files could not be read" in lost.headline()


def test_a_replacement_that_fails_is_said():
    tried = Tried(Outcome("absent"), Outcome("fails", "TypeError: no"))
    assert "(fails: TypeError: no)" in Row.of(BY_NAME["torch.einsum"], (), tried).replacement


def test_an_unknown_name_says_what_mindspore_has():
    assert Row.unknown("torch.x", (), Found(True, ("ops.x",))).says == "untried, of the same name: ops.x"
    assert report.LIMIT == 0.2


def test_the_command_answers_with_exit_codes(source, capsys):
    good = source("import torch\nimport torch.nn.functional as F\nF.gelu(torch.matmul(a, b))")
    assert cli.main(["coverage", str(good), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] and answer["operator_share"] == 0
    assert [row["operator"] for row in answer["rows"]] == ["GELU, as a function", "matmul"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a target"),
        (["x.py", "--list"], "name a target"),
        (["no_such_module"], "there is no such file"),
        (["no/such.py"], "nothing of that name"),
        (["x:y", "--timeout", "0"], "--timeout"),
        (["x:y", "--timeout", "nan"], "--timeout"),
        (["."], "no Python source"),
    ],
)
def test_a_wrong_command_line_is_one_message(words, said, capsys):
    assert cli.main(["coverage", *words]) == cli.INPUT
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_the_list_needs_no_framework(capsys):
    assert cli.main(["coverage", "--list"]) == 0
    assert "scaled dot-product attention" in capsys.readouterr().out
