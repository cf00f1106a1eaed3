"""A rule says where its reason was seen; what nothing here shows is marked, and an unknown symptom is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mindport.errors import UsageError
from mindport.tuning import check_claims, decision_rules, symptoms
from mindport.tuning.faults import Faults
from mindport.tuning.rules import ELSEWHERE, RULES
from tests.tuning.studies import figure

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "07_tuning.ipynb"


def state(rules, seen):
    return next(state for rule, state in zip(RULES, rules.states, strict=True) if rule.seen == seen)


def test_a_rule_names_a_result_that_the_notebook_has():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    given = set(re.findall(r'"(\w+)":', text.partition("decision_rules(")[2].partition(")")[0]))
    assert {rule.seen for rule in RULES if rule.seen} == given


def test_what_was_measured_is_named_and_what_was_not_run_says_so():
    rules = decision_rules({"arithmetic": check_claims()})
    assert state(rules, "arithmetic") == "arithmetic"
    assert state(rules, "ladder") == "ladder: not run"
    assert rules.ok and len(rules.tables()[0].rows) == len(RULES)


def test_a_negative_result_confirms_no_rule():
    missed = Faults("w", (figure("right"), figure("no mask"), figure("another activation")))
    assert not missed.ok
    assert state(decision_rules({"faults": missed}), "faults") == "faults: not confirmed"


def test_readings_of_a_card_are_not_verified_here():
    rules = decision_rules({})
    npu = [symptom for symptom in symptoms() if symptom.startswith("npu-smi")]
    assert len(npu) == 3
    assert all(rules.advice(symptom).state == ELSEWHERE for symptom in npu)
    assert [line.state for line in rules.properties()] == ["not verified"]


def test_an_unknown_symptom_is_refused():
    with pytest.raises(UsageError, match="no rule"):
        decision_rules({}).advice("it feels slow")


def test_every_symptom_has_one_answer():
    assert len(set(symptoms())) == len(RULES)
    assert all(decision_rules({}).advice(symptom).headline() for symptom in symptoms())
