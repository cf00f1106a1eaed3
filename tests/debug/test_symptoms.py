"""Each row of the table leads somewhere that exists, and words find the row that a person means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mindport.cli import COMMANDS
from mindport.debug import look_up, signs, symptom_table
from mindport.debug.symptoms import SYMPTOMS
from mindport.errors import UsageError

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.mark.parametrize("row", SYMPTOMS, ids=lambda row: row.sign[:40])
def test_a_row_leads_to_a_notebook_or_a_command(row):
    assert row.cause and row.evidence and row.do
    if row.where.isdigit():
        assert list(NOTEBOOKS.glob(f"{row.where}_*.ipynb"))
    else:
        assert row.where.split()[:1] == ["mindport"] and row.where.split()[1] in COMMANDS


def test_every_sign_is_found_by_itself():
    assert len(set(signs())) == len(SYMPTOMS) == len(symptom_table().rows)
    for row in SYMPTOMS:
        assert look_up(row.sign).found == (row,)


@pytest.mark.parametrize(
    ("asked", "cause"),
    [
        ("nan in a padded batch", "everything is hidden"),
        ("loss scale halves all the time", "infinite whatever the scale"),
        ("error on an innocent line", "runs ahead"),
        ("layers later off by a growing factor", "index"),
        ("loss not falling", "learning rate"),
        ("recompilation: spiky step times", "new graph"),
        ("zero gradient", "detached"),
    ],
)
def test_own_words_find_the_row(asked, cause):
    assert cause in look_up(asked).found[0].cause, look_up(asked).text()


@pytest.mark.parametrize("asked", ["it feels odd", "", "??"])
def test_words_of_no_row_are_refused(asked):
    with pytest.raises(UsageError, match="no row"):
        look_up(asked)


def test_public_reports_are_addresses():
    pattern = re.compile(r"^([\w.-]+/)?[\w.-]+(#\d+| PR\d+)$|^https://")
    assert [row.seen_in for row in SYMPTOMS if row.seen_in and not pattern.match(row.seen_in)] == []
