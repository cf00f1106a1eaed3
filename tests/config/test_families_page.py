"""The committed page of the families is the generated one, and the proofs that it names exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mindport.config import DIALECTS
from mindport.config.families import COMMAND, FEATURES, PROOFS, feature_table, page
from mindport.config.model_config import ModelConfig

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_the_generated_one():
    assert (ROOT / "docs/families.md").read_text(encoding="utf-8") == page(), f"run: {COMMAND}"


@pytest.mark.parametrize("test", [test for _, test, _ in PROOFS])
def test_the_proofs_that_it_names_exist(test):
    file, _, name = test.partition("::")
    functions = [n for n in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(n, ast.FunctionDef)]
    assert name in {function.name for function in functions}


def test_every_feature_is_a_field():
    assert {name for name, _ in FEATURES} <= set(ModelConfig.__dataclass_fields__)


def test_two_families_stand_side_by_side():
    table = feature_table(DIALECTS["llama"], DIALECTS["gemma"])
    rows = {row[0]: row[1:] for row in table.rows}
    assert table.columns == ("feature", "llama", "gemma") and len(rows) == len(FEATURES)
    assert rows["norms multiply by weight +"] == ("–", "1") and rows["the embedding is multiplied by"][0] == "–"
    assert rows["key/value heads"] == ("num_key_value_heads; num_attention_heads", "num_key_value_heads; 16")
    assert feature_table(DIALECTS["gemma"], DIALECTS["gemma"]).columns == ("feature", "gemma")
