"""What every result can do: JSON, text, HTML."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mindport.results import Property, Result, plain, verdict
from mindport.tables import Table
from tests.results_for_tests import Answer


@dataclass(frozen=True)
class Inner:
    path: Path
    shape: tuple[int, ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(math.nan, "nan"), (-math.inf, "-inf"), (np.float32("inf"), "inf"), (ml_dtypes.bfloat16("nan"), "nan"),
     (np.float64(0.5), 0.5), (np.int32(3), 3), (np.bool_(False), False), (np.array([1.0, math.nan]), [1.0, "nan"]),
     (np.array(2), 2), (np.zeros((0, 2)), []), (np.array([[7]]), [[7]]), (Path("a") / "b", "a/b"),
     ({1: (2, None)}, {"1": [2, None]}),
     (Inner(Path("x"), (2, 3)), {"path": "x", "shape": [2, 3]}), ("text", "text"), (True, True), (frozenset({1}), [1])],
)  # fmt: skip
def test_values_become_json(value, expected):
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)
    assert type(plain(value)) is type(expected)


def test_sets_become_lists_in_an_order_that_does_not_change():
    assert plain({"b", "a", "c"}) == ["a", "b", "c"]


def test_a_value_that_json_cannot_hold_is_a_fault():
    with pytest.raises(TypeError):
        json.dumps(plain({"x": object()}))


def test_a_result_as_json_has_its_verdict_headline_and_fields():
    record = Answer(good=False, says="2 of 4 hold", error=math.nan).as_dict()
    assert record == {
        "ok": False, "headline": "2 of 4 hold", "good": False, "says": "2 of 4 hold", "error": "nan",
        "shown": [], "lines": [],
    }  # fmt: skip


def test_a_result_in_a_result_keeps_its_verdict():
    assert plain({"inner": Answer()})["inner"]["ok"] is True


def test_text_and_html_show_the_headline_and_the_tables():
    answer = Answer(says="a <script> & more", shown=(Table("t", ("a",), [(1,), (2,)]),))
    assert answer.text() == "a <script> & more\n\nt\na\n-\n1\n2"
    assert answer.text(limit=1).endswith("… 1 more rows")
    page = answer._repr_html_()
    assert "<b>✓ a &lt;script&gt; &amp; more</b>" in page and "<script>" not in page and "<td>1</td>" in page
    assert "✗" in Answer(good=False)._repr_html_()


@pytest.mark.parametrize("use", [lambda r: r.ok, lambda r: r.headline()])
def test_a_result_without_an_answer_is_a_fault(use):
    with pytest.raises(TypeError, match="Result has no"):
        use(Result())


def test_a_verdict_is_verified_or_failed():
    assert verdict("p", True, "how").state == "verified"
    assert verdict("p", False, "how", "1 (limit 0)", "none") == Property("p", "failed", "how", "1 (limit 0)", "none")
