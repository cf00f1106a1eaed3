"""The committed page of the families is the generated one, and the proofs that it names exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mindport.config.families import COMMAND, FEATURES, PROOFS, page
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
