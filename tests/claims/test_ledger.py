"""The ledger is read strictly: what is wrong in it stops, with the line and the claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindport.claims import read_ledger
from mindport.claims.ledger import MEASURED, VERDICTS
from mindport.errors import FileError, UsageError

HEAD = "topics:\n  t: A topic\nset_ups:\n  s: x = 1\nclaims:\n"
ENTRY = """\
  - id: C001
    topic: t
    claim: One is two.
    verdict: "false"
    practice: Count again.
    seen_on: python 3.11
    set_up: s
    check: |
      x == 2
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "claims.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(FileError) as caught:
        read_ledger(written(tmp_path, text))
    return str(caught.value)


def test_a_good_entry_is_read(tmp_path):
    ledger = read_ledger(written(tmp_path, HEAD + ENTRY))
    (claim,) = ledger.claims
    assert (claim.id, claim.verdict, claim.expected, claim.check) == ("C001", "false", "false", "x == 2")
    assert (claim.alone, claim.timeout, claim.set_up, ledger.set_ups) == (False, 60.0, "s", {"s": "x = 1"})


def test_all_claims_are_there_each_with_a_check_or_the_reason_why_not():
    ledger = read_ledger()
    assert [claim.id for claim in ledger.claims] == [f"C{number:03}" for number in range(1, 212)]
    assert all(bool(claim.check) != bool(claim.why_not) for claim in ledger.claims)
    assert all(claim.expected in MEASURED for claim in ledger.claims if claim.check)
    assert {claim.verdict for claim in ledger.claims} == set(VERDICTS)
    assert {claim.topic for claim in ledger.claims} == set(ledger.topics)


def test_the_ledger_stays_readable():
    path = Path(__file__).parents[2] / "data/claims.yaml"
    assert path.stat().st_size < 150_000
    assert [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 120] == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("    practice: Count again.\n", "", "needs a practice"),
        ("    seen_on: python 3.11\n", "", "seen_on"),
        ("  - id: C001\n    topic: t", "  - topic: t", "id"),
        ("id: C001", "id: 1", "C and three digits"),
        ("topic: t", "topic: u", "no such topic: u"),
        ('verdict: "false"', "verdict: perhaps", "no such verdict: perhaps"),
        ("practice:", "praxis:", "praxis"),
        ("    seen_on:", "    claim: Twice.\n    seen_on:", "stands there twice"),
        ("    set_up: s\n", "    set_up: r\n", "no such set-up: r"),
        ("    set_up: s\n", "", "no claim uses"),
        ("    set_up: s\n", "    set_up: s\n    here: holds\n", "here stands beside a check, and only if"),
        ('verdict: "false"', "verdict: inconsistent", "here stands beside a check, and only if"),
        ('verdict: "false"', "verdict: inconsistent\n    here: never", "here is one of holds, partly, false"),
        ("    set_up: s\n", "    set_up: s\n    alone: maybe\n", "alone says yes"),
        ("    set_up: s\n", "    set_up: s\n    timeout: soon\n", "number of seconds"),
        ("    set_up: s\n", "    set_up: s\n    why_not: no time\n", "exactly one of check and why_not"),
        ("    check: |\n      x == 2\n", "", "exactly one of check and why_not"),
        ("    check: |\n      x == 2\n", "    why_not: no time\n", "no such set-up: s"),
        ("      x == 2\n", "      x ==\n", "it is not Python"),
        ("      x == 2\n", "      y = x\n", "does not end in an expression"),
        ("  s: x = 1", "  s: x = (", "set-up s: it is not Python"),
        ("claim: One is two.", "claim: [One, two]", "a text is expected"),
        ("claim: One is two.", 'claim: "  "', "a text is expected"),
    ],
)
def test_a_wrong_entry_stops(tmp_path, old, new, says):
    text = HEAD + ENTRY
    assert text.count(old) == 1
    assert says in refusal(tmp_path, text.replace(old, new))


def test_the_line_and_the_claim_are_named(tmp_path):
    said = refusal(tmp_path, HEAD + ENTRY + ENTRY.replace("C001", "C002").replace("topic: t", "topic: u"))
    assert "line 15, claim C002" in said
    assert "two claims have the same id" in refusal(tmp_path, HEAD + ENTRY + ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        "", "claims", "- 1", "a: [", "topics: {}\n", "\tx: 1", "topics: &a [*a]", "!!python/object/apply:os.abort []",
        "a: *b", HEAD + "  id: C001\n", HEAD + "  - [C001]\n", HEAD.replace("claims:", "claim:") + ENTRY,
        "? [a]\n: b\n", "a: " + "[" * 1500, "x: \x00", "set_ups: {}\nset_ups: {}\n",
    ],
)  # fmt: skip
def test_a_hostile_file_stops(tmp_path, text):
    assert "ledger of claims" in refusal(tmp_path, text)


def test_a_file_that_is_no_text_stops(tmp_path):
    (tmp_path / "claims.yaml").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(FileError, match="cannot be read"):
        read_ledger(tmp_path / "claims.yaml")
    with pytest.raises(FileError, match="is missing"):
        read_ledger(tmp_path / "none.yaml")


def test_claims_are_chosen_by_id_and_by_topic():
    ledger = read_ledger()
    assert [claim.id for claim in ledger.select(["C002", "C001"])] == ["C001", "C002"]
    chosen = ledger.select(["C001"], ["thresholds"])
    assert chosen[0].id == "C001" and {claim.topic for claim in chosen[1:]} == {"thresholds"} and len(chosen) > 2
    assert ledger.select() == ledger.claims
    for wrong in ({"only": ["C1"]}, {"topics": ["C001"]}):
        with pytest.raises(UsageError, match="there is no such"):
            ledger.select(**wrong)
