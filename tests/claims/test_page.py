"""The committed page of the claims is the generated one."""

from __future__ import annotations

from pathlib import Path

from mindport.claims import read_ledger
from mindport.claims.page import COMMAND, page

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_the_generated_one():
    assert (ROOT / "docs/claims.md").read_text(encoding="utf-8") == page(read_ledger()), f"run: {COMMAND}"


def test_every_claim_is_on_the_page_in_one_row():
    ledger = read_ledger()
    rows = [line for line in page(ledger).splitlines() if line.startswith("| C")]
    assert [row[2:6] for row in rows] == [claim.id for claim in ledger.claims]
    cells = {row[2:6]: row.replace("\\|", "").count("|") for row in rows}
    assert set(cells.values()) == {6}
