"""Every planted fault is found where it is, and named; a right model gives no alarm; the page says what happens."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest

from mindport import cli
from mindport.debug import FAULTS, diagnose, fault_lab, faultlab
from mindport.debug.faultlab import BUNDLED, Clean, LabReport, Trial, homes, trial
from mindport.debug.faultlab_page import COMMAND, rates, row
from mindport.debug.lessons import LAYER, LESSON, eps_table, fingerprints, operator_table
from mindport.errors import UsageError
from mindport.parity.tiny import MODELS
from mindport.tables import markdown_line

PAGE = Path(__file__).parents[2] / "docs/fault-lab.md"
LINES = PAGE.read_text(encoding="utf-8").splitlines()
FORWARD = [name for name, fault in FAULTS.items() if fault.kind == "forward"]


@pytest.mark.parametrize("name", FORWARD)
def test_a_planted_fault_is_found_and_named(grounds, name):
    found = trial(FAULTS[name], homes(FAULTS[name], grounds)[0])
    assert found.ok, found
    cells = markdown_line(row(found)).removesuffix(" |")
    assert [one for one in LINES if one.startswith(cells)], f"{cells} is not on the page; run: {COMMAND}"


@pytest.mark.parametrize("name", [*BUNDLED, *MODELS])
def test_a_right_model_has_no_cause(ground, name):
    here = ground(name)
    found = diagnose(here.compare(here.converted))
    assert found.ok and found.causes == () and "nothing is wrong" in found.headline()
    assert f"| {name} | nothing |" in LINES


def test_the_page_has_every_fault_and_its_rates():
    trials = [re.findall(r" ([^|]+) \|", one) for one in LINES if one.startswith("| `")]
    assert list(dict.fromkeys(cells[0].strip("`") for cells in trials)) == list(FAULTS), f"run: {COMMAND}"
    ranks = [cells[5] for cells in trials]
    first, top = ranks.count("1"), sum(rank in ("1", "2", "3") for rank in ranks)
    said = next(one for one in LINES if "trials:" in one)
    assert said.startswith(
        f"{len(FAULTS)} faults, {len(trials)} trials: {first} named first ({first / len(trials):.0%}"
    )
    assert f"{top} among the first 3 ({top / len(trials):.0%}" in said and "; 0 false alarms" in said
    assert top == len(trials) and first >= 0.9 * len(trials)


def report(*ranks, alarms=()):
    trials = [
        Trial(str(i), "", "forward", "m", "embed", "embed", ("a",), rank, "", 1.0, 1.0, 0.1)
        for i, rank in enumerate(ranks)
    ]
    return LabReport(tuple(trials), (Clean("m", tuple(alarms)),))


def test_the_verdict_asks_for_nine_in_ten_first_and_all_within_three():
    assert report(*[1] * 9, 3).ok
    assert not report(*[1] * 8, 2, 2).ok
    assert not report(*[1] * 9, 4).ok and not report(*[1] * 9, None).ok
    assert not report(1, alarms=("eps",)).ok
    assert report(1, 2).as_dict()["rates"] == {"first": 0.5, "first_3": 1.0, "false_alarms": 0}
    assert "8 named first (80%, at least 90%), 9 among" in rates(report(*[1] * 8, 2, None))


def test_the_lab_makes_its_models_in_a_process_of_their_own():
    with faultlab.grounds(["qwen2-padded"]) as (made,):
        assert made.config.padded_vocab == 64 and made.reference["ids"].max() < made.config.vocab_size == 53


def test_the_lab_by_the_command_line(capfd, monkeypatch, grounds):
    monkeypatch.setattr(faultlab, "grounds", lambda names, progress: contextlib.nullcontext(grounds))
    assert cli.main(["faultlab", "--only", "gelu", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["ok"] and [one["planted"] for one in said["trials"]] == ["gelu"]
    assert {"planted", "named", "rank", "seconds"} <= said["trials"][0].keys()
    assert said["trials"][0]["cosine"] > 0.9999 and said["trials"][0]["tokens"] > 0.9  # coarser checks let it pass
    assert [one["model"] for one in said["clean"]] == ["tiny-gpt2"]  # the one that it goes into


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(UsageError, match="no such fault"):
        fault_lab(only=["nothing"])
    with pytest.raises(UsageError, match="no such model"):
        fault_lab(models=["gpt5"])
    assert cli.main(["faultlab", "--only", "nothing"]) == 2


def test_the_lessons_faults_are_those_of_the_bundled_gpt2(ground):
    assert all(FAULTS[name].applies(ground("tiny-gpt2").config) for name in LESSON)


def test_the_operators_of_a_lesson_are_rows_that_are_tried():
    assert len(operator_table().rows) == len(LAYER)


def test_epsilon_shows_where_activations_are_small():
    errors = [error for _, error in eps_table(1e-5).rows]
    assert errors == sorted(errors)
    assert errors[0] < 1e-5 < errors[-1]


def test_the_fingerprints_are_those_the_notebook_describes():
    theta, mask = fingerprints().values()
    assert theta.path == mask.path == "blocks.0.attn.context" and theta.state == mask.state == "failed"
    assert theta.positions[0] <= theta.limit < theta.positions[-1]
    assert mask.positions[-1] <= mask.limit < mask.positions[0]
