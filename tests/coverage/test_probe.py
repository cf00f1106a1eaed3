"""Counterparts are judged by what they do: each state has an operator here that is in it."""

import pytest

from mindport.coverage import probe as module
from mindport.coverage.probe import Outcome, probe
from mindport.coverage.table import OPERATORS, Operator
from mindport.errors import BackendError


def made(name, torch, ms="", **others):
    return Operator(name, "test", (f"torch.{name}",), torch, ms, **others)


CONTROLS = (
    made("right", "torch.sin(x)", "ops.sin(x)"),
    made("wrong_counterpart", "torch.sin(x)", "ops.cos(x)"),
    made("wrong_by_little", "torch.sin(x)", "ops.sin(x) + 2e-5"),
    made("wrong_gradient", "x * x", "x * ops.stop_gradient(x)"),
    made("lost_gradient", "torch.sin(x)", "Tensor(np.sin(x.asnumpy()))"),
    made("wrong_shape", "x.sum(-1)", "x.sum()"),
    made("wrong_kind", "x > 0", "(x > 0).astype(ms.int32)"),
    made("nan_where_none_is", "torch.zeros(3)", "ops.zeros(3) / 0"),
    made("one_too_few", "torch.topk(x, 2)", "ops.topk(x, 2)[0]"),
    made("no_such_operator", "torch.sin(x)", "ops.no_such_operator(x)"),
    made("no_such_method", "torch.sin(x)", "x.no_such_method()"),
    made("softmaxx", "torch.sin(x)"),
    made("softmax", "torch.sin(x)"),
    made("killed", "torch.sin(x)", "__import__('os').abort()"),
    made("after_a_crash", "torch.cos(x)", "ops.cos(x)"),
    made("no_kernel", "torch.sin(x)", "ops.rms_norm(x, g)", instead="ops.sin(x)", naive="ops.cos(x)"),
    made("after_no_kernel", "torch.abs(x)", "ops.abs(x)"),
    made("raises", "torch.sin(x)", "ops.sin(x, x)"),
    made("wrong_torch", "torch.no_such_name(x)", "ops.sin(x)"),
)


@pytest.fixture(scope="module")
def controls():
    return probe(CONTROLS, ["torch.nn.functional.softmax", "torch.no_such_name", "torch.Tensor.view"])


@pytest.mark.parametrize(
    ("name", "state", "says"),
    [
        ("right", "runs", ""),
        ("wrong_counterpart", "wrong value", "off by"),
        ("wrong_by_little", "wrong value", "off by 2e-05"),
        ("wrong_gradient", "wrong gradient", "off by"),
        ("lost_gradient", "wrong gradient", "off by"),
        ("wrong_shape", "wrong value", "shape [] instead of [2, 3]"),
        ("wrong_kind", "wrong value", "int32 instead of bool"),
        ("nan_where_none_is", "wrong value", "off by nan"),
        ("one_too_few", "wrong value", "1 outputs instead of 2"),
        ("no_such_operator", "absent", "has no attribute 'no_such_operator'"),
        ("no_such_method", "absent", "has no attribute 'no_such_method'"),
        ("softmaxx", "absent", "nothing of that name"),
        ("softmax", "absent", "untried: ops.softmax"),
        ("killed", "crashes", "signal 6"),
        ("after_a_crash", "runs", ""),
        ("no_kernel", "no kernel", "unregistered"),
        ("after_no_kernel", "runs", ""),
        ("raises", "fails", "Error"),
        ("wrong_torch", "fails", "torch itself"),
    ],
)
def test_each_state(controls, name, state, says):
    outcome = controls.operators[name].ms
    assert outcome.state == state, outcome
    assert says in outcome.says


def test_replacements_and_naive_translations_are_tried_as_well(controls):
    tried = controls.operators["no_kernel"]
    assert tried.instead.runs
    assert tried.naive.state == "wrong value"
    assert controls.operators["right"].instead is None


def test_figures_are_given(controls):
    right = controls.operators["right"].ms
    assert right.value < 1e-6
    assert right.gradient < 1e-6
    assert controls.device == "CPU"


def test_names_are_looked_up_in_both(controls):
    softmax, nothing, view = controls.names.values()
    assert softmax.torch and "ops.softmax" in softmax.mindspore
    assert (nothing.torch, nothing.mindspore) == (False, ())
    assert view.torch and "Tensor.view" in view.mindspore


def test_what_takes_too_long_is_ended():
    endless = made("endless", "torch.sin(x)", "__import__('time').sleep(600)")
    assert probe([endless], seconds=2.0).operators["endless"].ms == Outcome("crashes", "signal 14 (Alarm clock)")


def test_a_missing_framework_is_said(monkeypatch):
    monkeypatch.setattr(module, "NEEDED", ("no_such_framework",))
    with pytest.raises(BackendError, match="not installed: no_such_framework"):
        probe(CONTROLS)


def test_a_process_that_cannot_start_is_said(monkeypatch):
    monkeypatch.setattr(module, "SCRIPT", "mindport.no_such_script")
    with pytest.raises(BackendError, match="No module named"):
        probe(CONTROLS)


# The whole table.


def test_torch_itself_knows_every_row(answers):
    assert [n for n, tried in answers.operators.items() if "torch itself" in tried.ms.says] == []


def test_every_replacement_runs_and_equals_torch(answers):
    tried = {name: tried.instead for name, tried in answers.operators.items() if tried.instead}
    assert {name: outcome for name, outcome in tried.items() if not outcome.runs} == {}


def test_every_trap_is_one(answers):
    tried = {name: tried.naive for name, tried in answers.operators.items() if tried.naive}
    assert [name for name, outcome in tried.items() if outcome.runs] == []


def test_what_is_known_not_to_run_is_all_that_does_not(answers):
    """A verdict that changes with a version turns this red: then look at its row, and write the page again."""
    failing = {name: tried.ms.state for name, tried in answers.operators.items() if not tried.ms.runs}
    assert failing == {
        "SELU": "wrong gradient",
        "alpha dropout": "absent",
        "as_strided": "absent",
        "broadcast several": "absent",
        "cummax": "no gradient",
        "dot": "no kernel",
        "einsum": "no kernel",
        "fmin": "no kernel",
        "index_put": "fails",
        "isin": "absent",
        "kthvalue": "fails",
        "multi-head attention, as a function": "absent",
        "quantile": "no kernel",
        "RMS norm, as a function": "no kernel",
        "RMS norm, as a layer": "absent",
        "roll": "no kernel",
        "scaled dot-product attention": "absent",
        "select": "no gradient",
        "unfold": "fails",
        "view_as_complex": "absent",
        "weight norm": "absent",
        "zero_ and fill_": "no kernel",
    }


def test_the_table_knows_what_most_needs_a_replacement(answers):
    lost = {o.name for o in OPERATORS if not answers.operators[o.name].ms.runs and not o.instead}
    assert lost == {"cummax", "alpha dropout"}
