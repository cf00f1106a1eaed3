"""The ledger as a page: `python -m mindport.claims.page > docs/claims.md`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from mindport.claims.ledger import LEDGER, VERDICTS, Claim, Ledger, read_ledger
from mindport.claims.report import counts
from mindport.tables import markdown

COMMAND = "python -m mindport.claims.page > docs/claims.md"
HEAD = ("claim", "it says", "verdict", "what to do", "checked by, and seen on")


def page(ledger: Ledger) -> str:
    """The page, as Markdown."""
    claims = ledger.claims
    checked = sum(bool(claim.check) for claim in claims)
    return "\n".join(
        [
            "# What articles claim, and what is so",
            "",
            f"Written by `{COMMAND}` from `{LEDGER}`; a test holds the page to it.",
            "",
            f"{len(claims)} claims about moving a GPT-style model to MindSpore: {counts(claims)}. {checked} have a "
            "check, a few lines that do the thing; `mindport claims` runs them all, compares what it sees with the "
            "verdict here, and exits with 1 where a version has changed one. `mindport claims --only C024` shows what "
            "a check saw. The others say why they cannot run on this machine.",
            "",
            markdown(("topic", "claims", "checked", *VERDICTS), _totals(ledger)),
            *(_topic(name, title, claims) for name, title in ledger.topics.items()),
        ]
    )


def _totals(ledger: Ledger) -> list[list[object]]:
    rows = []
    for name, title in {**ledger.topics, "": "all"}.items():
        claims = [claim for claim in ledger.claims if name in ("", claim.topic)]
        found = Counter(claim.verdict for claim in claims)
        checked = sum(bool(claim.check) for claim in claims)
        rows.append([title, len(claims), checked, *(found[verdict] for verdict in VERDICTS)])
    return rows


def _topic(name: str, title: str, claims: Sequence[Claim]) -> str:
    return f"## {title}\n\n" + markdown(HEAD, [_row(claim) for claim in claims if claim.topic == name])


def _row(claim: Claim) -> list[object]:
    here = f"; here: {claim.here}" if claim.here else ""
    how = f"`--only {claim.id}`: {claim.seen_on}" if claim.check else f"not run: {claim.why_not}"
    return [claim.id, claim.claim, f"{claim.verdict}{here}", claim.practice or "–", how]


if __name__ == "__main__":
    sys.stdout.write(page(read_ledger()))
