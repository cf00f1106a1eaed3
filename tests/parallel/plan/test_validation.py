"""The planner against published rows: the verdict, and that it turns red."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mindport import cli
from mindport.parallel.plan import hardware, plan
from mindport.parallel.plan.constants import read as constants
from mindport.parallel.plan.published import FILE, read, rows
from mindport.parallel.plan.result import held_to
from mindport.parallel.plan.validation import fit, held, splits
from tests.parallel.plan.models import job

KNOWN = rows("rows")


def test_half_of_the_rows_predict_the_other_half(validation):
    assert validation.ok and validation.memory_right
    assert [h.published for h in validation.fitted] == [row.tokens for row in KNOWN[::2]]
    assert [h.published for h in validation.held_out] == [row.tokens for row in KNOWN[1::2]]
    assert [h.published for h in validation.known] == [row.tokens for row in KNOWN]
    assert validation.share >= 2 / 3 and validation.share_of_all >= 2 / 3
    assert len(validation.splits) == 70 and min(validation.splits) >= 2 / 3  # whichever half is fitted


def test_the_file_s_efficiency_is_what_all_rows_say(validation):
    constant = hardware("910B").constants["efficiency"]
    assert constant.value == pytest.approx(validation.whole, abs=5e-4)
    assert all(constant.low <= s.efficiency <= constant.high for s in validation.sensitivity)


def test_a_row_without_a_layout_is_missed(validation):
    close = sum(h.close for h in validation.known)
    assert validation.share_of_all == close / (len(KNOWN) + len(validation.unlaid)) < close / len(KNOWN)


def test_the_fit_is_the_mean_of_what_single_rows_ask_for():
    alone = [fit([row]) for row in KNOWN[:2]]
    assert min(alone) < fit(KNOWN[:2]) < max(alone)
    assert held(KNOWN[0], alone[0]).error == pytest.approx(0, abs=1e-5)


def test_recomputation_is_compared_with_doing_without(validation):
    for row, found in zip(KNOWN, validation.known, strict=True):
        assert (found.without is None) == (row.layout.recompute == "none")
        assert found.without is None or found.without > found.needed
    assert {"needed", "none used"} < {h.remark for h in validation.known}
    assert validation.room > hardware("910B")["margin"]


def test_it_turns_red(validation):
    fast = [replace(row, tokens=row.tokens * factor) for row, factor in zip(KNOWN, (1, 1.6, 0.6, 1) * 2, strict=True)]
    assert sorted(splits(fast))[35] < 2 / 3  # the median
    wrong = replace(validation, held_out=tuple(replace(h, error=0.2) for h in validation.held_out))
    assert not wrong.ok and wrong.memory_right and wrong.properties()[0].state == "failed"
    tight = replace(KNOWN[0], memory=50.0)
    full = replace(validation, fitted=(held(tight, 0.6), *validation.fitted[1:]))
    assert not full.memory_right and not full.ok


def test_the_range_that_a_plan_is_held_to_is_that_of_the_rows():
    ranges = constants()["held_to"]
    assert ranges["seq"] == [min(row.seq for row in KNOWN), max(row.seq for row in KNOWN)]
    sizes = [row.job({}).size.parameters for row in KNOWN]
    assert ranges["parameters"] == pytest.approx([min(sizes), max(sizes)], rel=0.01)
    assert all(held_to(row.job({})) for row in KNOWN) and not held_to(job())
    assert "beyond the published rows" in plan(job()).headline()
    assert "beyond" not in plan(KNOWN[0].job({}), layout=KNOWN[0].layout).headline()


def test_every_row_says_where_it_is_from():
    for row in (*KNOWN, *rows("further"), *rows("unlaid")):
        assert ".md; " in row.source and row.server in ("Atlas 800T A2", "Atlas 900 A2 PoDc")
        assert row.again is None or len(row.again) == row.layout.pp
    assert all(0 < line["mfu"] < 1 for line in read(FILE)["others"])


@pytest.mark.parametrize(("good", "code"), [(True, 0), (False, 1)])
def test_the_command_line(validation, monkeypatch, capsys, good, code):
    found = validation if good else replace(validation, fitted=(held(replace(KNOWN[0], memory=9.0), 0.6),))
    monkeypatch.setattr("mindport.parallel.plan.validate", lambda: found)
    assert cli.main(["plan", "--validate"]) == code
    assert "held out" in capsys.readouterr().out
    assert cli.main(["plan", "--validate", "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"] == good and answer["share"] == found.share and len(answer["splits"]) == 70
