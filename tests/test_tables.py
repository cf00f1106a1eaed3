"""A table reads the same in a terminal, a notebook and the report."""

from __future__ import annotations

import html.parser

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.tables import STATES, Table, markdown, show


@pytest.mark.parametrize(
    ("cell", "text"),
    [(None, "–"), (True, "yes"), (False, "no"), (np.bool_(True), "yes"), (1.23456e-7, "1.23e-07"), (0.0, "0"),
     (np.float32(1.23456e-7), "1.23e-07"), (ml_dtypes.bfloat16(0.5), "0.5"), (float("nan"), "nan"),
     (134515008, "134,515,008"),
     (np.int64(1234), "1,234"), ((2, 3), "[2, 3]"), ([], "[]"), ("a|b", "a|b"), (-1234.5678, "-1.23e+03")],
)  # fmt: skip
def test_a_cell_is_shown(cell, text):
    assert show(cell) == text


def test_text_is_aligned_and_cut_aloud():
    table = Table("modules", ("module", "error"), [("embed", 0.0), ("layers.0", 3.14159e-7), ("head", None)])
    assert table.text() == (
        "modules\nmodule    error\n--------  --------\nembed     0\nlayers.0  3.14e-07\nhead      –"
    )
    assert table.text(limit=1).splitlines()[-2:] == ["embed   0", "… 2 more rows"]
    assert "more rows" not in table.text(limit=3)
    assert Table("empty", ("a", "b"), []).text() == "empty\na  b\n-  -"


def test_html_is_cut_aloud_and_marks_states():
    table = Table("t", ("state", "n"), [("failed", 1), ("pass", 2), ("else", 3)])
    assert '<td class="bad">failed</td>' in table.html() and '<td class="good">pass</td>' in table.html()
    assert "<td>else</td>" in table.html() and "… 2 more rows" in table.html(limit=1)
    assert table.html(limit=None).count("<tr>") == 4


@given(st.lists(st.tuples(st.text(), st.text()), max_size=4), st.text(), st.text())
def test_no_cell_becomes_markup(rows, title, column):
    tags: list[str] = []
    parser = html.parser.HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)
    parser.feed(Table(title + "<script>", (column, "<img>"), [*rows, ("<b>", "</td><script>")]).html())
    assert set(tags) - {"span"} == {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_a_table_as_json_shows_what_the_text_shows():
    table = Table("t", ("a", "b"), [(1e-7, None)])
    assert table.as_dict() == {"title": "t", "columns": ["a", "b"], "rows": [["1e-07", "–"]]}
    assert Table(**table.as_dict()).html() == table.html()


def test_a_ragged_row_is_a_fault():
    with pytest.raises(ValueError, match="row 1 of 't' has 1 cells, its head 2"):
        Table("t", ("a", "b"), [("x", "y"), ("z",)])


def test_every_state_of_a_property_has_a_colour():
    assert {"verified", "failed", "skipped", "not verified"} <= STATES.keys()


def test_a_number_and_a_shape_are_never_broken():
    page = Table("t", ("a", "b"), [((576, 1536), "off by 2.07e-06 at [a, b]")]).html()
    assert '<td><span class="n">[576, 1536]</span></td>' in page
    assert '<td>off by <span class="n">2.07e-06</span> at [a, b]</td>' in page


def test_no_cell_can_end_a_line_of_a_page():
    assert markdown(("a", "b"), [("x | y", 1), ("two\nlines", None)]).splitlines() == [
        "| a | b |", "| --- | --- |", "| x \\| y | 1 |", "| two lines | None |",
    ]  # fmt: skip
