"""The notebooks run through papermill at size smoke, and their records say what they should.

Two models run, of two families; experiments that are given no model run with the first alone, see `shorter`.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from mindport.report import STEPS
from mindport.run import run
from tests.notebooks.lint import NOTEBOOKS
from tests.notebooks.shorter import ALIKE, shorter_notebooks, uses

FIRST, SECOND = "tiny-llama", "tiny-gpt2"
ONCE = ("00_environment_check", "06_parallel_scaling", "07_tuning")  # 00 looks at no model; 06 and 07 take most time


def test_the_notebooks_are_there():
    missing = [name for name in STEPS if not (NOTEBOOKS / f"{name}.ipynb").exists()]
    assert missing == []


MARKS = (pytest.mark.notebooks, pytest.mark.timeout(1800))  # whoever asks for the fixture first waits for all of them


@pytest.fixture(scope="module", params=[pytest.param(model, marks=MARKS) for model in (FIRST, SECOND)])
def finished(request, tmp_path_factory):
    """All notebooks on one model; on the other what may differ."""
    out, model = tmp_path_factory.mktemp(request.param), request.param
    notebooks = NOTEBOOKS if model == FIRST else shorter_notebooks(out / "shorter" / "notebooks")
    return run(model, size="smoke", out=out / "run", only=[name[:2] for name in asked(model)], notebooks=notebooks)


def asked(model: str) -> list[str]:
    return [name for name in STEPS if model == FIRST or name not in ONCE]


def cells(folder: Path) -> dict[tuple[str, int], str]:
    """(notebook, its number) → a cell of code."""
    read = {path.stem: json.loads(path.read_text())["cells"] for path in sorted(folder.glob("*.ipynb"))}
    return {
        (name, n): "".join(cell["source"])
        for name, found in read.items() for n, cell in enumerate(found) if cell["cell_type"] == "code"
    }  # fmt: skip


def test_a_shorter_notebook_lacks_what_is_alike_and_what_uses_it_and_nothing_else(tmp_path):
    whole, short = cells(NOTEBOOKS), cells(shorter_notebooks(tmp_path / "shorter"))
    assert whole.keys() == short.keys()
    assert [name for name in ALIKE if not any(f"{name}(" in cell for cell in whole.values())] == []
    assert not any(uses(ast.parse(cell), set()) for cell in short.values())
    changed = {place for place in whole if whole[place] != short[place]}
    assert {name for name, _ in changed} == {"03_layer_parity", "04_pynative_debug", "05_graph_training"}
    records = {name: cell for (name, _), cell in short.items() if "report.write(" in cell}
    assert "'training': trained" in records["03_layer_parity"] and "lab" not in records["03_layer_parity"]
    assert "'resume'" not in records["05_graph_training"] and "'export': exported" in records["05_graph_training"]
    assert len(changed) <= 20, "most of what they show is of the model"


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
        assert all(re.search("Ascend|NPU|no card", line["how"]) for line in card["not_verified"])
    page = (finished.out / "index.html").read_text()
    assert "Nothing on this page was run on an Ascend NPU" in page
    assert all(f"{name}.html" in page for name in ran(finished))
