"""A broken row is one wrong name: the plan says which, and the right name closes the accounts again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindport.config import DIALECTS, read_config
from mindport.errors import MappingError, UsageError
from mindport.weights import break_row, open_hf, plan, with_name
from tests.weights.models import make

ROW = "blocks.{}.attn.o.weight"
RIGHT = {"llama": "model.layers.{}.self_attn.o_proj.weight", "gpt2": "h.{}.attn.c_proj.weight"}


@pytest.mark.parametrize("family", list(DIALECTS))
def test_one_row_of_any_family_breaks(family: str) -> None:
    dialect = DIALECTS[family]
    changed = [(a, b) for a, b in zip(dialect.rows, break_row(dialect, ROW, "x").rows, strict=True) if a != b]
    [(right, wrong)] = changed
    assert right.hub == wrong.hub == ROW and wrong.foreign.split(".")[-2:] == ["x", "weight"]
    assert with_name(break_row(dialect, ROW, "x"), ROW, right.foreign) == dialect


@pytest.mark.parametrize("family", RIGHT)
def test_the_plan_names_both_sides_until_the_name_is_repaired(family: str, tmp_path: Path) -> None:
    source = make(tmp_path, family)
    report, shapes = read_config(source), {name: info.shape for name, info in open_hf(source).infos.items()}
    broken = break_row(report.dialect, ROW, "out_proj")
    with pytest.raises(MappingError, match=r"3 missing: .*out_proj.*; 3 unexpected: .*_proj") as caught:
        plan(broken, report.model, shapes)
    assert RIGHT[family].format(0) in str(caught.value)
    assert plan(with_name(broken, ROW, RIGHT[family]), report.model, shapes).steps


def test_what_breaks_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="right one"):
        break_row(DIALECTS["llama"], ROW, "o_proj")
    with pytest.raises(UsageError, match="no such row"):
        break_row(DIALECTS["llama"], "blocks.{}.attn.x.weight", "o_proj")
    with pytest.raises(UsageError, match="no such row"):
        with_name(DIALECTS["llama"], "blocks.{}.attn.x.weight", "o_proj")
