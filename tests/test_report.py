"""Records, the card and the page: what is written is read back, what is missing is said, nothing executes."""

from __future__ import annotations

import html.parser
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport import display, report
from mindport.errors import FileError, UsageError
from mindport.report.card import NO_ASCEND, STEPS
from mindport.report.page import render
from mindport.report.step import COMMAND_VARIABLE, read_step
from mindport.results import Property, verdict
from mindport.tables import Table
from tests.results_for_tests import Answer

LINES = (
    verdict("logits agree", True, "4 prompts", "4.1e-06 (limit 1e-04)"),
    Property("gradients agree", "skipped", "no torch here"),
)
TABLE = Table("modules", ("module", "error"), [("embed", 0.0), ("layers.0", 3.1e-7)])


def write(out, step="03_layer_parity", answer=None, **options):
    answer = answer or Answer(shown=(TABLE,), lines=LINES)
    return report.write(out, step, title=options.pop("title", "Layer parity"), results={"parity": answer}, **options)


def test_a_record_is_read_back_equal(tmp_path):
    plot = display.lines({"ours": [1e-6, 2e-6]}, title="t", x="x", y="y")
    written = write(tmp_path, command="mindport verify m", figures={"Error by layer": plot})
    read = read_step(tmp_path / "03_layer_parity.json")
    assert read.as_dict() == written.as_dict() == json.loads((tmp_path / "03_layer_parity.json").read_text())
    assert read.lines == LINES and read.command == "mindport verify m"
    assert read.figures == ("figures/03_layer_parity-error-by-layer.png",)
    assert (tmp_path / read.figures[0]).read_bytes().startswith(b"\x89PNG")
    assert {"python", "mindspore", "torch", "transformers", "numpy", "safetensors"} <= read.versions.keys()
    assert {"os", "arch", "cores", "memory", "device"} <= read.machine.keys()
    assert [path.name for path in tmp_path.rglob("*.part")] == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_a_number_that_json_cannot_hold_becomes_text(tmp_path, value):
    write(tmp_path, answer=Answer(error=value))
    assert json.loads((tmp_path / "03_layer_parity.json").read_text())["results"]["parity"]["error"] == str(
        float(value)
    )


def test_the_command_is_the_one_the_run_announced(tmp_path, monkeypatch):
    assert write(tmp_path).command == "cell by cell, in 03_layer_parity.ipynb"
    monkeypatch.setenv(COMMAND_VARIABLE, "mindport run --size smoke")
    assert write(tmp_path).command == "mindport run --size smoke"


@pytest.mark.parametrize("step", ["", "3", "../03", "03_Layer Parity", "03_a/b"])
def test_a_step_has_a_name_that_is_a_file_name(tmp_path, step):
    with pytest.raises(UsageError):
        write(tmp_path, step)


def test_a_record_needs_a_result(tmp_path):
    with pytest.raises(UsageError, match="nothing to report"):
        report.write(tmp_path, "00", title="t", results={})


def test_a_step_with_a_failed_property_is_not_ok(tmp_path):
    assert write(tmp_path).ok
    assert not write(tmp_path, answer=Answer(lines=(verdict("logits agree", False, "4 prompts"),))).ok
    assert not write(tmp_path, answer=Answer(good=False)).ok


def damage(record: dict, how: str) -> str:
    if how == "cut":
        return json.dumps(record)[:-40]
    if how == "a list":
        return "[]"
    if how == "no properties":
        del record["properties"]
    if how == "a state that is none":
        record["properties"][0]["state"] = "probably"
    if how == "a verdict that its properties contradict":
        record["properties"][0]["state"] = "failed"
    if how == "a ragged table":
        record["tables"][0]["rows"][0].append("x")
    if how == "a plot from elsewhere":
        record["figures"] = ["../../secret.png"]
    if how == "a file that is no plot":
        record["figures"] = ["figures/passwd"]
    return json.dumps(record)


@pytest.mark.parametrize(
    "how",
    ["cut", "a list", "no properties", "a state that is none", "a verdict that its properties contradict",
     "a ragged table", "a plot from elsewhere", "a file that is no plot"],
)  # fmt: skip
def test_a_damaged_record_is_a_file_error(tmp_path, how):
    write(tmp_path)
    path = tmp_path / "03_layer_parity.json"
    path.write_text(damage(json.loads(path.read_text()), how))
    with pytest.raises(FileError, match=r"03_layer_parity\.json"):
        report.write_report(tmp_path)


def test_a_missing_plot_is_a_file_error(tmp_path):
    step = write(tmp_path, figures={"a": display.lines({"a": [1.0]}, title="t", x="x", y="y")})
    (tmp_path / step.figures[0]).unlink()
    with pytest.raises(FileError, match="plot"):
        report.write_report(tmp_path)


def test_steps_that_left_no_record_are_not_verified(tmp_path):
    write(tmp_path)
    card = report.gather(tmp_path)
    open_lines = [line.name for line in card.properties() if line.how == "step not run"]
    assert open_lines == [promise for step, promise in STEPS.items() if step != "03_layer_parity"]
    assert card.ok and card.missing() == ["00", "01", "02", "04", "05", "06", "07"]


def test_an_empty_run_verifies_nothing(tmp_path):
    assert not report.write_report(tmp_path).ok
    assert json.loads((tmp_path / "card.json").read_text())["counts"]["verified"] == 0
    with pytest.raises(FileError, match="no run here"):
        report.gather(tmp_path / "nowhere")


def test_ascend_is_not_verified_unless_it_was_used(tmp_path):
    write(tmp_path)
    assert [line.how for line in report.gather(tmp_path).properties() if line.backend == "Ascend"] == [NO_ASCEND] * 5
    write(tmp_path, answer=Answer(lines=(verdict("logits agree", True, "4 prompts", backend="Ascend"),)))
    card = report.write_report(tmp_path)
    assert card.device() == "Ascend" and "on an Ascend NPU" not in (tmp_path / "index.html").read_text()


def test_the_card_counts_and_lists_every_property(tmp_path):
    write(tmp_path)
    write(tmp_path, "00_environment_check", Answer(good=False, lines=(verdict("NumPy ABI", False, "a probe"),)))
    report.write_report(tmp_path)
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["ok"] is False and card["device"] == "CPU"
    assert card["counts"] == {"verified": 1, "failed": 1, "skipped": 1, "not_verified": 11}
    assert {state: len(card[state]) for state in card["counts"]} == card["counts"]
    assert card["failed"][0]["name"] == "NumPy ABI"
    assert card["steps"]["03_layer_parity"]["ok"] is True


def stopped(tmp_path, ended: str, step: str = "03_layer_parity") -> None:
    entry = {"name": step, "state": "failed", "minutes": 0.1, "error": "a cell raised"}
    (tmp_path / "run.json").write_text(json.dumps({"command": "c", "model": "m", "ended": ended, "notebooks": [entry]}))


def test_a_notebook_that_stopped_counts_until_its_record_is_newer(tmp_path):
    write(tmp_path)
    stopped(tmp_path, "2999-01-01T00:00:00+00:00")
    assert [line.how for line in report.gather(tmp_path).properties() if line.state == "failed"] == ["a cell raised"]
    stopped(tmp_path, "2001-01-01T00:00:00+00:00")
    assert report.gather(tmp_path).ok


def test_a_later_notebook_that_stopped_is_on_the_card_too(tmp_path):
    write(tmp_path)
    stopped(tmp_path, "2999-01-01T00:00:00+00:00", "07_tuning")
    assert [line.name for line in report.gather(tmp_path).properties() if line.state == "failed"] == [
        "notebook 07_tuning runs to its end"
    ]


def test_a_damaged_record_of_the_run_is_a_file_error(tmp_path):
    (tmp_path / "run.json").write_text('{"notebooks": [1]}')
    with pytest.raises(FileError, match=r"run\.json"):
        report.gather(tmp_path)


class Elements(html.parser.HTMLParser):
    """The tags of a page, and where they point."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.targets += [value for name, value in attrs if name in ("href", "src")]


HOSTILE = """<script>alert('x')</script><img src=x onerror="alert(1)">&amp;"""


@given(st.text(max_size=40))
def test_no_text_becomes_markup(tmp_path_factory, text):
    tmp_path = tmp_path_factory.mktemp("page")
    dirty = HOSTILE + text.replace("\ud800", "")
    table = Table(dirty, (dirty,), [(dirty,)])
    answer = Answer(says=dirty, shown=(table,), lines=(verdict(dirty, True, dirty, dirty, dirty),))
    write(tmp_path, answer=answer, title=dirty, command=dirty)
    (tmp_path / "run.json").write_text(json.dumps({"command": dirty, "model": dirty, "notebooks": []}))
    page = Elements()
    page.feed(render(report.gather(tmp_path)))
    assert "script" not in page.tags and "img" not in page.tags


def test_the_page_is_self_contained_and_its_links_resolve(tmp_path):
    write(tmp_path, figures={"a": display.lines({"a": [1.0]}, title="t", x="x", y="y")})
    (tmp_path / "notebooks").mkdir()
    for suffix in (".ipynb", ".html"):
        (tmp_path / "notebooks" / f"03_layer_parity{suffix}").touch()
    report.write_report(tmp_path)
    page = Elements()
    page.feed((tmp_path / "index.html").read_text())
    files = [target for target in page.targets if not target.startswith(("data:image/png;base64,", "#"))]
    assert set(files) == {
        "03_layer_parity.json", "notebooks/03_layer_parity.html", "notebooks/03_layer_parity.ipynb", "card.json",
    }  # fmt: skip
    assert all((tmp_path / name).exists() for name in files)


def page_of(tmp_path, *tables: Table, step: str = "03_layer_parity") -> str:
    write(tmp_path, step, answer=Answer(shown=tables))
    report.write_report(tmp_path)
    return (tmp_path / "index.html").read_text()


def test_a_long_table_is_folded_whole_and_a_short_one_is_in_sight(tmp_path):
    rows = [(f"layers.{i}", 1e-7) for i in range(300)]
    page = page_of(tmp_path, Table("modules", ("module", "error"), rows), TABLE)
    folded, _, rest = page.partition("<details>")[2].partition("</details>")
    assert "modules · 300 rows" in folded and all(folded.count(f"layers.{i}<") == 1 for i in (7, 299))
    assert "embed" in rest and "<details" not in rest


def test_a_folded_table_that_holds_a_fault_is_open(tmp_path):
    rows = [(f"layers.{i}", "failed" if i == 200 else "pass") for i in range(300)]
    assert "<details open>" in page_of(tmp_path, Table("modules", ("module", "state"), rows))


def test_the_tables_of_the_environment_are_folded(tmp_path):
    assert "<details>" in page_of(tmp_path, TABLE, step="00_environment_check")


def test_numbers_and_shapes_stay_whole(tmp_path):
    table = Table("t", ("shape", "error", "name"), [((576, 1536), 2.07e-6, "blocks.1"), ((3,), -1e-5, "[a, b]")])
    page = page_of(tmp_path, table)
    for kept in ("[576, 1536]", "[3]", "2.07e-06", "-1e-05"):
        assert f'<span class="n">{kept}</span>' in page
    assert "<td>[a, b]</td>" in page and "<td>blocks.1</td>" in page


def test_the_verdict_stands_at_the_top(tmp_path):
    write(tmp_path)
    report.write_report(tmp_path)
    assert "✓ Everything that was tried holds; 13 properties were not tried" in (tmp_path / "index.html").read_text()
    write(tmp_path, answer=Answer(lines=(verdict("logits agree", False, "4 prompts"),)))
    report.write_report(tmp_path)
    assert "✗ Failed: logits agree" in (tmp_path / "index.html").read_text()
