"""The user's torch module beside its MindSpore twin, from traces that two processes wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mindport import cli
from mindport.errors import BackendError, MappingError
from mindport.parity.trace import read_trace
from mindport.tracing import compare_traces, read_rules, trace
from tests.tracing import users

RULES = read_rules(users.RULES)
LIB = Path(__file__).parents[2] / "lib"


@pytest.fixture(scope="module")
def right(traced):
    return compare_traces(traced("torch"), traced("build"), RULES)


def test_the_twins_agree_in_every_value_and_gradient(right):
    assert right.ok and right.first_divergence is None and right.first_backward is None
    kinds = {kind: [row for row in right.rows if row.kind == kind] for kind in ("in", "out", "back", "grad")}
    assert {row.a for row in kinds["out"]} >= {
        "conv", "bn", "words", "blocks.1.norm", "blocks.0[0]", "blocks.0[1][hidden]", "blocks.0#2[0]", "."
    }  # fmt: skip
    assert {(row.a, row.b) for row in kinds["grad"]} >= {
        ("final.weight", "final.gamma"), ("words.weight", "words.embedding_table"),
        ("blocks.1.up.weight", "layers.1.up.weight"), ("conv.bias", "conv.bias"),
    }  # fmt: skip
    assert len(kinds["back"]) > 20 and max(row.relative for row in right.rows) < 1e-5
    assert any(row.a == "loss" and row.relative < 1e-6 for row in right.rows)


def test_what_has_no_partner_is_listed(right):
    assert "grad/unused.weight" in right.only_b  # torch gives none, MindSpore gives zeros
    assert "have no partner" in right.headline()
    assert any("never called unused" in note for note in right.notes)
    assert any(line.state == "not verified" for line in right.properties())


def test_every_parameter_is_known_to_be_equal(right):
    assert {row.state for row in right.parameters} == {"equal"}
    assert {("bn.running_mean", "bn.moving_mean"), ("blocks.0.norm.weight", "layers.0.ln.gamma")} <= {
        (row.a, row.b) for row in right.parameters
    }


def test_a_wrong_epsilon_is_named(traced):
    found = compare_traces(traced("torch"), traced("wrong_epsilon"), RULES)
    assert not found.ok
    assert found.first_divergence.name == "out/blocks.1.norm ↔ out/layers.1.ln"
    assert "the module itself" in found.first_divergence.says and "LayerNorm" in found.first_divergence.says
    states = {row.name: row.state for row in found.rows}
    assert states["out/."] == "inherited" and states["out/blocks.0.norm ↔ out/layers.0.ln"] == "pass"
    assert [row.name for row in found.rows if row.state == "failed"] == ["out/blocks.1.norm ↔ out/layers.1.ln"]
    assert compare_traces(traced("torch"), traced("wrong_epsilon"), RULES, limit=10.0).ok


def test_a_fault_between_the_modules_is_told_from_one_in_a_module(traced):
    found = compare_traces(traced("torch"), traced("wrong_between"), RULES)
    assert found.first_divergence.name == "out/blocks.1[0] ↔ out/layers.1[0]"
    inner = [row for row in found.rows if row.a.startswith("blocks.1.") and row.kind == "out"]
    assert inner and all(row.state == "pass" for row in inner)


def test_other_weights_are_said_first(traced):
    found = compare_traces(traced("torch"), traced("other_weights"), RULES)
    assert not found.ok and "do not have the same weights: final.weight" in found.headline()


def test_names_without_rules_have_no_partner_and_proposals_bring_them_together(traced):
    found = compare_traces(traced("torch"), traced("build"))
    assert "out/blocks.0.norm" in found.only_a and "out/layers.0.ln" in found.only_b
    again = compare_traces(traced("torch"), traced("build"), read_rules(found.proposals))
    assert len(again.only_a) < len(found.only_a) and again.ok
    with pytest.raises(MappingError, match=r"no value of A(.|\n)*--map 'blocks\.\{i\}\.norm=layers\.\{i\}\.ln'"):
        compare_traces(traced("torch"), traced("build"), read_rules(["re:^=their."]))


def test_padding_does_not_count(traced):
    torch_side, mindspore_side = (read_trace(traced(name)) for name in ("torch", "build"))
    mindspore_side.arrays["out/final"] = mindspore_side["out/final"].copy()
    mindspore_side.arrays["out/final"][1, 3:] += 100
    found = compare_traces(torch_side, mindspore_side, RULES)
    assert found.ok and "2 of 10 positions, where in/.[attention_mask] is 0" in found.padding
    same = compare_traces(torch_side, mindspore_side, RULES, padding="in/.[ids]=0")
    assert same.ok
    nobody = compare_traces(torch_side, mindspore_side, RULES, padding="in/.[ids]=10")
    assert not nobody.ok and nobody.first_divergence.name == "out/final"


def test_both_commands(traced, capfd):
    paths = [str(traced("torch")), str(traced("wrong_epsilon"))]
    maps = [word for rule in users.RULES for word in ("--map", rule)]
    assert cli.main(["compare", *paths, *maps, "--json"]) == 1
    answer = json.loads(capfd.readouterr().out)
    assert answer["ok"] is False and answer["first_divergence"]["name"].startswith("out/blocks.1.norm")
    assert cli.main(["compare", paths[0], paths[0]]) == 0
    assert "values agree in order of execution" in capfd.readouterr().out
    assert cli.main(["compare", *paths, "--map", "nonsense"]) == 2
    assert cli.main(["compare", *paths, "--limit", "nan"]) == 2


POISONED = """
import json, sys
for name in ("torch", "mindspore", "transformers"):
    sys.modules[name] = None
from mindport.tracing import compare_traces, read_rules, summarise
found = compare_traces(sys.argv[1], sys.argv[2], read_rules(sys.argv[3:]))
print(json.dumps([found.ok, len(found.rows), len(found._repr_html_()), summarise(sys.argv[1]).ok]))
assert not {"torch", "mindspore", "transformers"} & {name for name, module in sys.modules.items() if module}
"""


def test_traces_are_compared_where_neither_framework_is(traced, right):
    words = [sys.executable, "-c", POISONED, str(traced("torch")), str(traced("build")), *users.RULES]
    done = subprocess.run(words, capture_output=True, text=True, cwd=LIB, timeout=300)
    assert done.returncode == 0, done.stderr
    ok, rows, page, summary = json.loads(done.stdout)
    assert ok and summary and rows == len(right.rows) and page > 1000


def test_the_poison_works():
    poison = POISONED.splitlines()[1:4]
    code = "\n".join([*poison, "import torch"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "import of torch halted" in done.stderr


def test_in_graph_mode_hooks_do_not_fire_and_that_is_said(traced, tmp_path, monkeypatch):
    monkeypatch.chdir(traced("torch").parent)
    with pytest.raises(BackendError, match=r"Graph mode hooks do not fire(.|\n)*PYNATIVE_MODE"):
        trace("theirs_mindspore.py:graph", tmp_path / "trace")
    assert not (tmp_path / "trace").exists()
