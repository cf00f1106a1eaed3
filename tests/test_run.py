"""`mindport run` on tiny notebooks of our own: how it ends, what it leaves, and what it says."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from mindport import notebook
from mindport import run as runner
from mindport.errors import FileError, NotebookError, UsageError
from mindport.report import STEPS
from mindport.run import run

PARAMETERS = 'model: str = "?"\nsize: str = "?"\nout: str = "?"\ninteractive: bool = True'
RECORD = """
from mindport import report
from mindport.results import verdict
from tests.results_for_tests import Answer
lines = (verdict("it holds", {good}, "by a test"),)
answer = Answer(good={good}, says=f"{{model}} {{size}} {{interactive}}", lines=lines)
report.write(out, {step!r}, title="Step", results={{"answer": answer}})
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A repository with a notebooks directory; its kernels find the tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "model").mkdir()
    return tmp_path


def add(
    place: Path, name: str, *cells: str, parameters: str = PARAMETERS, good: bool = True, record: bool = True
) -> None:
    texts = [*cells, RECORD.format(step=name, good=good)] if record else cells
    book = new_notebook(
        cells=[new_code_cell(parameters, metadata={"tags": ["parameters"]}), *map(new_code_cell, texts)]
    )
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, place / "notebooks" / f"{name}.ipynb")


def start(place: Path, **options):
    lines: list[str] = []
    options = {
        "size": "smoke",
        "out": place / "out",
        "notebooks": place / "notebooks",
        "progress": lines.append,
    } | options
    return run(str(place / "model"), **options), lines


def card(place: Path) -> dict:
    return json.loads((place / "out" / "card.json").read_text())


def test_a_run_leaves_records_copies_and_a_report(place):
    add(place, "00_environment_check", "import os\nprint(os.getcwd())")
    add(place, "01_config_mapping")
    report, lines = start(place)
    assert report.ok
    assert [entry.state for entry in report.notebooks] == ["done", "done"]
    assert len(lines) == 2 and lines[0].startswith("[1/2] 00_environment_check")
    out = place / "out"
    record = json.loads((out / "01_config_mapping.json").read_text())
    assert record["results"]["answer"]["headline"] == f"{place / 'model'} smoke False"  # all four were injected
    assert record["command"] == f"mindport run --model {place / 'model'} --size smoke --out {out}"
    copy = nbformat.read(out / "notebooks" / "00_environment_check.ipynb", as_version=4)
    assert str(place) in copy.cells[2].outputs[0].text  # the kernel's working directory is the repository
    assert "<html" in (out / "notebooks" / "00_environment_check.html").read_text()
    assert 'href="notebooks/00_environment_check.html"' in (out / "index.html").read_text()
    assert [line["how"] for line in card(place)["not_verified"]][:2] == ["step not run"] * 2


def test_the_copies_load_nothing_from_elsewhere(place):
    add(place, "00_environment_check")
    start(place)
    page = (place / "out" / "notebooks" / "00_environment_check.html").read_text()
    assert 'src="http' not in page and 'href="http' not in page


def test_widget_state_is_stripped_and_the_static_output_stays(place):
    add(place, "00_environment_check", "import ipywidgets\nipywidgets.IntSlider()")
    start(place)
    text = (place / "out" / "notebooks" / "00_environment_check.ipynb").read_text()
    assert "IntSlider" in text and notebook.WIDGET not in text and '"widgets"' not in text


def test_a_failing_cell_stops_the_run_and_the_report_says_so(place):
    add(place, "00_environment_check")
    add(place, "01_config_mapping", "# the reason\nx = 1\nraise ValueError('no such key: rope_theta')")
    add(place, "02_weight_conversion")
    with pytest.raises(NotebookError) as caught:
        start(place)
    message = str(caught.value)
    assert "01_config_mapping.ipynb, cell [3]: x = 1" in message
    assert "ValueError: no such key: rope_theta" in message
    assert "Traceback" not in message and "\x1b" not in message and len(message.splitlines()) < 10
    assert not card(place)["ok"]
    assert [line["name"] for line in card(place)["failed"]] == ["notebook 01_config_mapping runs to its end"]
    assert "rope_theta" in card(place)["failed"][0]["how"]
    open_steps = [line["name"] for line in card(place)["not_verified"] if line["how"] == "step not run"]
    left = ("02_weight_conversion", "03_layer_parity", "04_pynative_debug", "05_graph_training",
            "06_parallel_scaling", "07_tuning")  # fmt: skip
    assert open_steps == [STEPS[name] for name in left]
    assert "rope_theta" in (place / "out" / "index.html").read_text()
    assert (place / "out" / "notebooks" / "01_config_mapping.html").exists()


def test_a_mindport_error_keeps_its_lines(place):
    add(place, "00_environment_check", "from mindport.errors import FileError\nraise FileError('gone', where='a.json')")
    with pytest.raises(NotebookError, match=r"FileError: gone\n.*where:    a\.json"):
        start(place)


def test_a_dead_kernel_is_named(place):
    add(place, "00_environment_check", "x = 1", "import os; os._exit(1)")
    with pytest.raises(NotebookError, match=r"the kernel died") as caught:
        start(place)
    assert "import os; os._exit(1)" in str(caught.value.where)
    assert "memory" in str(caught.value.do)
    assert card(place)["failed"]


def test_a_slow_cell_is_named(place, monkeypatch):
    monkeypatch.setitem(runner.CELL_SECONDS, "smoke", 3)
    add(place, "00_environment_check", "import time; time.sleep(60)")
    with pytest.raises(NotebookError, match="more than 3 s") as caught:
        start(place)
    assert "time.sleep(60)" in str(caught.value.where)


def test_an_undeclared_parameter_is_said_and_not_injected(place):
    add(place, "00_environment_check", "interactive = False", parameters=PARAMETERS.rpartition("\n")[0])
    report, lines = start(place)
    assert report.ok
    assert lines[0] == "00_environment_check declares no interactive: its own values stand"
    copy = nbformat.read(place / "out" / "notebooks" / "00_environment_check.ipynb", as_version=4)
    injected = next(cell for cell in copy.cells if "injected-parameters" in cell.metadata.get("tags", []))
    assert "interactive" not in injected.source


def test_a_notebook_without_a_record_is_an_error(place):
    add(place, "00_environment_check", "x = 1", record=False)
    with pytest.raises(NotebookError, match="without a record"):
        start(place)


def test_an_interrupted_run_leaves_a_report_too(place, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(notebook, "execute", interrupted)
    add(place, "00_environment_check")
    with pytest.raises(KeyboardInterrupt):
        start(place)
    assert card(place)["failed"][0]["how"] == "interrupted"


def test_a_negative_verdict_is_a_result_not_an_error(place):
    add(place, "00_environment_check", good=False)
    add(place, "01_config_mapping")
    report, _ = start(place)
    assert not report.ok
    assert [entry.state for entry in report.notebooks] == ["done", "done"]
    assert card(place)["failed"][0]["name"] == "it holds"


def test_only_runs_the_named_steps_and_keeps_the_others(place):
    add(place, "00_environment_check")
    add(place, "01_config_mapping")
    start(place)
    before = (place / "out" / "00_environment_check.json").stat().st_mtime_ns
    report, lines = start(place, only="01")
    assert [entry.name for entry in report.notebooks] == ["01_config_mapping"]
    assert len(lines) == 1
    assert (place / "out" / "00_environment_check.json").stat().st_mtime_ns == before
    assert len(report.report.steps) == 2


def test_an_old_record_cannot_pass_for_a_new_one(place):
    add(place, "00_environment_check")
    start(place)
    add(place, "00_environment_check", "raise ValueError('now it fails')")
    with pytest.raises(NotebookError):
        start(place)
    assert not (place / "out" / "00_environment_check.json").exists()
    assert card(place)["counts"]["verified"] == 0


def test_two_runs_do_not_write_the_same_directory(place):
    add(place, "00_environment_check")
    (place / "out").mkdir()
    with (place / "out" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another run"):
            start(place)
    assert start(place)[0].ok


@pytest.mark.parametrize(
    ("options", "message"),
    [({"only": "07"}, "no such step"), ({"only": []}, "no such step"), ({"size": "huge"}, "no such size")],
)
def test_arguments_that_make_no_sense_are_refused(place, options, message):
    add(place, "00_environment_check")
    with pytest.raises(UsageError, match=message):
        start(place, **options)
    assert not (place / "out").exists()


def test_size_full_wants_a_model(place):
    with pytest.raises(UsageError, match="your own model"):
        run(size="full", notebooks=place / "notebooks", out=place / "out")


def test_a_missing_model_is_refused_before_a_kernel_starts(place):
    add(place, "00_environment_check")
    with pytest.raises(FileError, match="no such model"):
        run("nowhere/at/all", size="smoke", notebooks=place / "notebooks", out=place / "out")
    assert not (place / "out" / "run.json").exists()


def test_a_package_without_notebooks_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(runner.mindport, "__file__", str(tmp_path / "lib" / "mindport" / "__init__.py"))
    with pytest.raises(FileError, match="not beside the package"):
        runner.notebooks_directory()


def test_a_damaged_notebook_is_named(place):
    (place / "notebooks" / "00_environment_check.ipynb").write_text("{")
    with pytest.raises(NotebookError, match="cannot be read"):
        start(place)


def test_an_unknown_kernel_is_named(place):
    add(place, "00_environment_check")
    with pytest.raises(NotebookError, match="no such kernel"):
        start(place, kernel="conda-of-somebody")


def test_little_memory_is_said_beforehand(place, monkeypatch):
    add(place, "00_environment_check")
    monkeypatch.setattr(runner, "available_memory", lambda: 2**30)
    assert "warning: this may take 2.0 GiB" in start(place)[1][0]


def test_a_model_to_fetch_is_fetched_first(place, monkeypatch):
    fetched: list[str] = []
    absent = type("Inventory", (), {"items": [type("Item", (), {"name": "smollm2", "ready": False})]})
    monkeypatch.setattr(runner.sources, "available", lambda: absent)
    monkeypatch.setattr(runner.sources, "fetch", lambda name, progress: fetched.append(name))
    monkeypatch.setattr(runner.sources, "resolve", lambda name: place / "model")
    add(place, "00_environment_check")
    lines: list[str] = []
    report = run(size="small", out=place / "out", notebooks=place / "notebooks", progress=lines.append)
    assert fetched == ["smollm2"] and report.model == "smollm2"
    assert lines[0] == "smollm2 is not on this machine: fetching it"
