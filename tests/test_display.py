"""What notebooks show: a static twin for each widget, faults that must be caught, sources, plots."""

from __future__ import annotations

import math
import sys

import pytest
from matplotlib.figure import Figure

from mindport import display
from mindport.display import code, widgets
from mindport.errors import ConfigError, FileError, UsageError
from tests.results_for_tests import Answer


@pytest.fixture
def shown(monkeypatch):
    """What a cell displays, in order."""
    import IPython.display

    things: list[object] = []
    monkeypatch.setattr(IPython.display, "display", things.append)
    return things


def view(heads: int = 0, tied: bool = False) -> Answer:
    if heads == 7:
        raise ConfigError("576 is not divisible by 7")
    return Answer(says=f"{heads} heads, tied {tied}")


def test_the_default_is_shown_statically_then_the_range(shown):
    display.explore(view, interactive=False, heads=[9, 7, 3], tied=True)
    default, table = shown
    assert default.headline() == "9 heads, tied True"
    assert table.columns == ("heads", "tied", "answer") and len(table.rows) == 6
    assert table.rows[0] == (9, True, "9 heads, tied True")
    assert table.rows[2] == (7, True, "ConfigError: 576 is not divisible by 7")


@pytest.mark.parametrize("controls", [{"heads": range(100)}, {"heads": [9]}])
def test_a_range_that_says_nothing_on_paper_is_not_tabled(shown, controls):
    display.explore(view, interactive=False, **controls)
    assert len(shown) == 1


def test_a_view_without_a_headline_has_no_table(shown):
    display.explore(lambda n: n * 2, interactive=False, n=[4, 5])
    assert shown == [8]


def test_a_fault_of_the_default_is_not_hidden(shown):
    with pytest.raises(ConfigError):
        display.explore(view, interactive=False, heads=[7, 9])


@pytest.mark.parametrize("control", [[], range(0), "abc", 3, None, {1, 2}])
def test_a_control_needs_choices(control):
    with pytest.raises(UsageError, match="control"):
        display.explore(view, interactive=False, heads=control)


class Shell:
    kernel = object()


def test_widgets_need_interactive_and_a_front_end(shown, monkeypatch):
    import IPython
    import ipywidgets

    monkeypatch.setattr(ipywidgets, "interactive_output", lambda view, handles: ipywidgets.Output())  # needs a shell

    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    display.explore(view, interactive=True, heads=[9, 3])
    assert len(shown) == 2
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    display.explore(view, interactive=True, heads=[9, 3], tied=False)
    *_, box = shown
    assert [type(child).__name__ for child in box.children] == ["Dropdown", "Checkbox", "Output"]


def test_a_slider_starts_at_the_default(monkeypatch):
    import ipywidgets

    slider = widgets._widget(ipywidgets, "max_position", range(8, 0, -2))
    assert (slider.value, slider.min, slider.max, slider.step) == (8, 2, 8, 2)


def test_without_ipywidgets_the_static_output_stays(shown, monkeypatch, capsys):
    import IPython

    monkeypatch.setattr(IPython, "get_ipython", Shell)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    display.explore(view, interactive=True, heads=[9, 3])
    assert len(shown) == 2 and "ipywidgets is not installed" in capsys.readouterr().out


def test_a_planted_fault_that_is_caught_passes_and_prints(capsys):
    with display.expect_fault(ConfigError, match="theta"):
        raise ConfigError("rope theta is wrong", got=1)
    assert capsys.readouterr().out.startswith("caught, as planned: ConfigError: rope theta is wrong\n")
    with display.expect_fault((ConfigError, FileError)):
        raise FileError("gone")


def nothing():
    return None


def other():
    raise ValueError("x")


def silent():
    raise ConfigError("something else")


@pytest.mark.parametrize(
    ("act", "message"),
    [(nothing, "nothing was raised"), (other, "raised ValueError"), (silent, "does not say 'theta'")],
)
def test_a_planted_fault_that_is_not_caught_fails(act, message):
    with pytest.raises(AssertionError, match=message), display.expect_fault(ConfigError, match="theta"):
        act()


def test_an_interrupt_is_not_a_fault():
    with pytest.raises(KeyboardInterrupt), display.expect_fault(ConfigError):
        raise KeyboardInterrupt


def test_sources_are_those_of_the_library():
    listing = display.side_by_side(code.source, "y = x @ W.T  # <b>", titles=("ours", "theirs"))
    assert "def source(thing: object)" in repr(listing) and "# theirs\ny = x @ W.T" in repr(listing)
    page = listing._repr_html_()
    assert "minmax(0,1fr)" in page and "&lt;b&gt;" in page and "<b>theirs</b>" in page
    assert display.source(nothing).titles == (f"{__name__}.nothing",)
    assert display.source(nothing).texts == ("def nothing():\n    return None",)


PLOTS = {
    "lines": lambda values, **options: display.lines({"ours": values}, title="t", x="x", y="y", **options),
    "bars": lambda values, **options: display.bars(
        {str(i): value for i, value in enumerate(values)}, title="t", y="y", **options
    ),
    "position": lambda values, **options: display.error_by_position({"a": values, "b": values}, **options),
    "layer": lambda values, **options: display.error_by_layer({"a": values}, **options),
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
@pytest.mark.parametrize("values", [[1e-7, 2e-3], [0.0, 0.0], [math.nan, 1e-6, math.inf], [], [1e-7] * 400])
def test_a_plot_is_drawn_once_and_small(plot, values):
    figure = plot(values, limit=1e-5)
    assert isinstance(figure, Figure) and figure.get_dpi() <= 100
    picture = figure._repr_png_()
    assert picture.startswith(b"\x89PNG") and len(picture) < 100_000
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []  # pyplot would draw it a second time


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_what_cannot_be_drawn_is_said(plot):
    series = 2 if plot is PLOTS["position"] else 1
    texts = [text.get_text() for text in plot([0.0, math.nan, 1e-6, math.inf]).axes[0].texts]
    assert texts[-1] == f"{series} exactly zero, {2 * series} not finite"
    assert not plot([1e-6, 2e-6]).axes[0].texts


def test_a_bar_that_cannot_be_drawn_keeps_its_row_and_says_its_value():
    axes = display.bars({"a": 1e-6, "zero": 0.0, "nan": math.nan}, title="t", y="y").axes[0]
    bottom, top = axes.get_ylim()
    assert bottom > 2 and top < 0  # three rows, the first on top
    assert [note.get_text().strip() for note in axes.texts[:2]] == ["0", "nan"]


def test_of_many_bars_the_largest_are_drawn():
    values = {str(i): i * 1e-7 for i in range(1, 101)} | {"nan": math.nan}
    axes = display.bars(values, title="modules", y="y").axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert len(names) == 40 and {"100", "62", "nan"} <= set(names) and "61" not in names
    assert axes.get_title(loc="left") == "modules (the 40 largest of 101)"


def test_the_limit_is_in_the_plot():
    axes = display.error_by_layer({"ours": [1e-6]}, limit=1e-5).axes[0]
    assert axes.get_yscale() == "log"
    assert [line.get_label() for line in axes.lines] == ["ours", "limit 1e-05"]


def test_bars_over_the_limit_have_another_colour():
    bars = display.bars({"good": 1e-6, "bad": 1e-3, "nan": math.nan}, title="t", y="y", limit=1e-5).axes[0].patches
    assert bars[0].get_facecolor() != bars[1].get_facecolor() == bars[2].get_facecolor()
