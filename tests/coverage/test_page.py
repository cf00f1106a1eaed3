"""docs/coverage.md is what the table says, and what the operators did in this very run."""

from mindport.coverage.page import COMMAND, page
from mindport.places import REPOSITORY

PAGE = REPOSITORY / "docs" / "coverage.md"


def test_the_page_is_up_to_date(answers):
    assert PAGE.read_text(encoding="utf-8") == page(answers), f"write it again: {COMMAND}"


def test_it_is_ordinary_markdown(answers):
    rows = [line for line in page(answers).splitlines() if line.startswith("|")]
    assert len(rows) > 250
    assert all(line.count("|") - line.count("\\|") in (4, 5) for line in rows)
