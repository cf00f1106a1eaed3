"""The committed page of the claims is the generated one."""

from __future__ import annotations

from pathlib import Path

from mindport.claims import read_ledger
from mindport.claims.page import COMMAND, page
from mindport.claims.report import counts

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_the_generated_one():
    assert (ROOT / "docs/claims.md").read_text(encoding="utf-8") == page(read_ledger()), f"run: {COMMAND}"


def test_the_readme_counts_what_the_ledger_holds():
    claims = read_ledger().claims
    checks = sum(bool(claim.check) for claim in claims)
    told = f"{len(claims)} claims: {counts(claims)}. {checks} of {checks} checks give the ledger's verdict"
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert told in text and f"The other {len(claims) - checks} say why" in text and f"{checks} of them have" in text


def test_every_claim_is_on_the_page_in_one_row():
    ledger = read_ledger()
    rows = [line for line in page(ledger).splitlines() if line.startswith("| C")]
    assert [row[2:6] for row in rows] == [claim.id for claim in ledger.claims]
    cells = {row[2:6]: row.replace("\\|", "").count("|") for row in rows}
    assert set(cells.values()) == {6}
