"""The notebooks run through papermill at size smoke, and their records say what they should."""

from __future__ import annotations

import json

import pytest

from mindport.report import STEPS
from mindport.run import run
from tests.notebooks.lint import NOTEBOOKS

pytestmark = pytest.mark.notebooks
ONCE = ("00_environment_check", "06_parallel_scaling", "07_tuning")  # 00 looks at no model; 06 and 07 take most time


def test_the_notebooks_are_there():
    missing = [name for name in STEPS if not (NOTEBOOKS / f"{name}.ipynb").exists()]
    assert missing == []


@pytest.fixture(scope="module", params=["tiny-llama", "tiny-gpt2"])
def finished(request, tmp_path_factory):
    """All notebooks on one model; on the other those that may differ."""
    out = tmp_path_factory.mktemp(request.param)
    return run(request.param, size="smoke", out=out, only=[name[:2] for name in asked(request.param)])


def asked(model: str) -> list[str]:
    return [name for name in STEPS if model == "tiny-llama" or name not in ONCE]


def ran(finished) -> list[str]:
    return [path.stem for path in sorted((finished.out / "notebooks").glob("*.html"))]


def test_what_ran_is_what_was_asked_for(finished):
    assert ran(finished) == asked(finished.model)


def test_the_run_is_positive(finished):
    assert finished.ok, finished.text()
    assert [entry.state for entry in finished.notebooks] == ["done"] * len(finished.notebooks)


@pytest.mark.parametrize("name", STEPS)
def test_each_step_leaves_a_positive_record(finished, name):
    if name not in ran(finished):
        pytest.skip("it runs on the other model")
    record = json.loads((finished.out / f"{name}.json").read_text())
    assert record["ok"] is True
    assert record["machine"]["device"] == "CPU"
    assert record["command"] == finished.command
    assert [line["name"] for line in record["properties"] if line["state"] == "failed"] == []
    assert any(line["state"] == "verified" for line in record["properties"])


def test_the_card_and_the_page_are_written(finished):
    card = json.loads((finished.out / "card.json").read_text())
    assert card["ok"] is True
    assert card["counts"]["failed"] == 0
    if len(ran(finished)) == len(STEPS):  # only Ascend is left open
        assert all("Ascend" in line["how"] for line in card["not_verified"])
    page = (finished.out / "index.html").read_text()
    assert "Nothing on this page was run on an Ascend NPU" in page
    assert all(f"{name}.html" in page for name in ran(finished))
