"""docs/planner.md is what the code and its data say."""

from __future__ import annotations

from pathlib import Path

from mindport.parallel.plan.page import page

PAGE = Path(__file__).parents[3] / "docs" / "planner.md"


def test_the_page_is_up_to_date(validation):
    assert PAGE.read_text(encoding="utf-8") == page(validation)
