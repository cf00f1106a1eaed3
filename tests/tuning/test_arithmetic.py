"""Claims are judged by their own numbers: the verdicts are those of the ledger, and a changed number flips them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindport.measure.flops import layers_flops
from mindport.tuning import arithmetic, check_claims, shapes

VERDICTS = {
    "C083": ["contradicted"], "C050": ["contradicted"], "C064": ["contradicted"], "C176": ["holds"],
    "F145": ["holds", "contradicted", "holds"], "C139": ["contradicted", "contradicted"], "C193": ["contradicted"],
    "C175": ["contradicted"], "C180": ["contradicted"], "C198": ["contradicted"], "C126": ["contradicted"],
}  # fmt: skip


def test_the_verdicts_are_those_of_the_ledger():
    found: dict[str, list[str]] = {}
    for claim in check_claims().claims:
        found.setdefault(claim.id, []).append(claim.verdict)
    assert found == VERDICTS


@pytest.mark.parametrize("claim", check_claims().claims, ids=lambda claim: f"{claim.id} {claim.says[:24]}")
def test_a_claim_of_the_recomputed_figure_holds_and_one_far_from_it_does_not(claim):
    assert replace(claim, claimed=claim.recomputed).holds
    wrong = {"=": 2.0, "≤": 2.0, "≥": 0.5}[claim.bound] * claim.recomputed
    assert not replace(claim, claimed=wrong).holds


def test_a_bound_is_open_on_its_other_side():
    claim = arithmetic.Claim("X", "says", 1.0, 2.0, "GB", "how", "≤")
    assert claim.holds and not replace(claim, bound="≥").holds


def test_a_layer_grows_as_its_operations_do():
    layer = shapes.gpt2(768, 12, layers=1, vocab_size=64, context=4096)
    counted = layers_flops(layer, 1, 2048) / layers_flops(layer, 1, 1024)
    full = arithmetic.layer_growth(768, 1024)  # the article's formula scores every pair, ours the causal half
    assert 2 < counted < full < 4
    assert arithmetic.layer_growth(768, 1) == pytest.approx(2, abs=1e-3)


def test_a_smaller_share_is_a_faster_part():
    assert arithmetic.time_ratio(0.12, 0.28) == pytest.approx(2.85, abs=0.01)
    assert arithmetic.time_ratio(0.28, 0.12) < 1
    assert arithmetic.time_ratio(0.3, 0.3) == pytest.approx(1)


def test_the_report_counts_what_holds():
    report = check_claims()
    assert report.ok and report.headline().startswith("3 of 14 ")
    assert [line.state for line in report.properties()] == ["verified"]
    assert "e+" not in report.text()
