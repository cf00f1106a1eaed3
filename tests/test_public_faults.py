"""Every reported fault ends as it should, and the page about them is the generated one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.fuzz import fuzz
from tests.public_faults import COMMAND, FAULTS, Fault, page, seen

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number}")
def test_the_user_sees_what_is_right(fault: Fault) -> None:
    said = seen(fault)
    assert [part for part in fault.says if part not in said] == [], said
    assert said.startswith("stops") == ("stops" in fault.says), said
    assert "DIFFERENT" not in said


def test_the_committed_page_is_the_generated_one() -> None:
    assert (ROOT / "docs/faults.md").read_text(encoding="utf-8") == page(), f"run: {COMMAND}"


@pytest.mark.parametrize("test", sorted({test for fault in FAULTS for test in fault.tests}))
def test_the_tests_that_it_names_exist(test: str) -> None:
    file, _, name = test.partition("::")
    functions = [n for n in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(n, ast.FunctionDef)]
    assert name in {function.name for function in functions}


def test_random_edits_end_in_results_or_typed_errors(tmp_path: Path) -> None:
    came = fuzz(5, 0, tmp_path)
    ends = {what.partition(": ")[2] for what in came}
    assert {"result", "ConfigError", "FileError"} <= ends <= {"result", "ConfigError", "FileError", "MappingError"}
