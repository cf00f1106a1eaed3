"""What notebooks show: a static twin for each widget, faults that must be caught, sources, plots."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import pytest
from matplotlib.figure import Figure

from mindport import display
from mindport.display import widgets
from mindport.errors import ConfigError, FileError, UsageError
from mindport.parity.curves import Course
from mindport.parity.rows import Row
from mindport.parity.steps import StepRow
from mindport.training.monitor import Alarm, Evaluation
from mindport.training.step_record import StepRecord
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
    listing = display.source(nothing)
    assert (listing.title, listing.text) == (f"{__name__}.nothing", "def nothing():\n    return None")
    assert repr(listing).startswith(f"# {__name__}.nothing\ndef nothing")
    text = display.source("y = x @ W.T  # <i>", title="a <line>")
    page = text._repr_html_()
    assert "# &lt;i&gt;" in page and "<b>a &lt;line&gt;</b>" in page
    assert repr(display.source("y = 1\n")) == "y = 1" and "<b>" not in display.source("y = 1")._repr_html_()


def row(error=1e-6, limit=1e-5, whole=2e-6, whole_limit: float | None = 2e-5, positions=(), state="pass") -> Row:
    return Row("blocks.0", "h.0", (2, 3, 4), 1.0, error, error, limit, 1e-7, 1.0, 1.0, whole, 1.0, whole,
               whole_limit, positions, state)  # fmt: skip


PLOTS = {
    "lines": lambda values: display.lines(
        {"ours": values}, title="t", x="x", y="y", limits={"ours": [1e-5] * len(values)}
    ),
    "position": lambda values: display.error_by_position({name: row(positions=tuple(values)) for name in "ab"}),
    "layer": lambda values: display.error_by_layer([row(error=value, whole=value) for value in values]),
}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
@pytest.mark.parametrize("values", [[1e-7, 2e-3], [0.0, 0.0], [math.nan, 1e-6, math.inf], [], [1e-7] * 400])
def test_a_plot_is_drawn_once_and_small(plot, values):
    figure = plot(values)
    assert isinstance(figure, Figure) and figure.get_dpi() <= 100
    picture = figure._repr_png_()
    assert picture.startswith(b"\x89PNG") and len(picture) < 100_000
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []  # pyplot would draw it a second time


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_what_cannot_be_drawn_is_said(plot):
    series = 1 if plot is PLOTS["lines"] else 2
    texts = [text.get_text() for text in plot([0.0, math.nan, 1e-6, math.inf]).axes[0].texts]
    assert texts[-1] == f"{series} exactly zero, {2 * series} not finite"
    assert not plot([1e-6, 2e-6]).axes[0].texts


def test_each_series_has_its_own_limits_in_its_own_colour():
    layers = [row(limit=1e-5, whole_limit=2e-5), row(limit=3e-5, whole_limit=None)]
    axes = display.error_by_layer(layers).axes[0]
    assert axes.get_yscale() == "log"
    drawn = {line.get_label(): line for line in axes.lines}
    assert list(drawn) == ["whole model", "limit: whole model", "alone", "limit: alone", "torch itself, alone"]
    assert list(drawn["limit: alone"].get_ydata()) == [1e-5, 3e-5]
    whole = drawn["limit: whole model"]
    assert whole.get_ydata()[0] == 2e-5 and math.isnan(whole.get_ydata()[1])
    assert whole.get_color() == drawn["whole model"].get_color() != drawn["limit: alone"].get_color()


def test_one_limit_for_all_is_one_line():
    axes = display.error_by_position({name: row(positions=(1e-6, 2e-6), whole_limit=1e-5) for name in "ab"}).axes[0]
    assert [line.get_label() for line in axes.lines] == ["a", "b", "limit 1e-05"]


def test_the_legend_stands_beside_the_axes():
    figure = display.error_by_layer([row(), row()])
    figure._repr_png_()  # lays the figure out
    axes = figure.axes[0]
    assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
    assert display.lines({"one": [1.0, 2.0]}, title="t", x="x", y="y").axes[0].get_legend() is None


@pytest.mark.parametrize(("state", "whole_limit", "limit"), [("failed", 2e-5, 1e-5), ("pass", 2e-5, 2e-5),
                                                             ("failed", None, 1e-5)])  # fmt: skip
def test_positions_are_held_to_the_limit_they_were_judged_by(state, whole_limit, limit):
    axes = display.error_by_position({"a": row(positions=(1e-6, 1e-4), state=state, whole_limit=whole_limit)}).axes[0]
    assert axes.lines[1].get_label() == f"limit {limit:g}"


def test_bars_stand_in_their_order_with_their_peer_across():
    figure = display.bars({"first": 30.0, "second": 10.0}, title="t", x="ms", marks={"peer": 20.0})
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["first", "second"]
    assert axes.yaxis_inverted()  # the first on top
    assert [patch.get_width() for patch in axes.patches] == [30.0, 10.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["peer: 20"]
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert display.bars({"one": 1.0}, title="t", x="ms").axes[0].get_legend() is None


@pytest.mark.parametrize("limits", [(1e-5, 1e-5, 1e-5), (1e-5, 2e-5, 3e-5)])
def test_two_trainings_lie_on_each_other_and_their_difference_has_an_axis_of_its_own(limits):
    errors = (0.0, 1e-7, 3e-7)
    rows = [StepRow("Graph", "loss", i, 3.0 - i + error, 3.0 - i, error, 1e-7, limit)
            for i, (error, limit) in enumerate(zip(errors, limits, strict=True))]  # fmt: skip
    figure = display.training_curves(SimpleNamespace(course=lambda quantity: rows))
    above, below = figure.axes
    assert (above.get_yscale(), below.get_yscale()) == ("linear", "log")
    assert [list(line.get_ydata()) for line in above.lines] == [[3.0, 2.0, 1.0], [row.ours for row in rows]]
    assert list(below.lines[0].get_ydata())[1:] == [1e-7, 3e-7]
    assert any("limit" in line.get_label() for line in below.lines)
    assert below.texts[0].get_text() == "1 exactly zero"
    assert len(figure._repr_png_()) < 100_000


def test_a_training_beside_torch_is_drawn_with_its_limit():
    course = Course(
        "loss", (3.0, 2.0, 1.0), (3.0, 2.1, 1.0), (0.0, 0.1, 0.0), (1e-7, 1e-7, 2e-7), (0.1, 0.2, 0.1), (1e-4,) * 3
    )
    figure = display.curves_beside_torch(SimpleNamespace(course=lambda quantity: course))
    above, below = figure.axes
    assert [list(line.get_ydata()) for line in above.lines] == [[3.0, 2.1, 1.0], [3.0, 2.0, 1.0]]
    assert [line.get_label() for line in below.lines] == [
        "ours from torch", "torch from float64", "ours from float64", "limit 0.0001"
    ]  # fmt: skip


def training(steps: int = 30) -> list:
    records = [StepRecord(n, 3 + 3 / n, 1.0 + 1 / n, 1e-3 / n, tokens=100, seconds=0.1, compiled=int(n == 1))
               for n in range(1, steps + 1)]  # fmt: skip
    alarm = Alarm(20, "loss spike", "loss 9", ("a cause",), "go back")
    return [Evaluation(0, 6.0, 400.0, 10, 0.1), *records, Evaluation(steps, 3.2, 24.5, 10, 0.1), alarm]


def test_a_training_is_drawn_with_its_held_out_points_and_its_alarms():
    loss, norm, lr, speed = display.plot_curves(training()).axes
    assert [line.get_label() for line in loss.lines[:2]] == ["training", "held-out"]
    assert list(loss.lines[1].get_xdata()) == [0, 30] and list(loss.lines[1].get_ydata()) == [6.0, 3.2]
    assert [text.get_text().strip() for text in loss.texts] == ["loss spike"]
    assert [list(axes.lines[-1].get_xdata()) for axes in (loss, norm, lr, speed)] == [[20, 20]] * 4
    assert norm.get_yscale() == "log" and [text.get_text() for text in speed.texts] == ["1 compiled"]


@pytest.mark.parametrize("events", [[], training(1), training(400)])
def test_a_training_of_any_length_is_drawn_once_and_small(events):
    assert len(display.plot_curves(events)._repr_png_()) < 150_000


def test_a_long_curve_has_a_median_that_one_spike_does_not_move():
    events = [StepRecord(n, 1000.0 if n == 200 else 2.0, math.nan if n == 5 else 1.0, 1e-3) for n in range(1, 401)]
    loss, norm, *_ = display.plot_curves(events).axes
    assert max(loss.lines[0].get_ydata()) == 1000 and set(loss.lines[1].get_ydata()) == {2.0}
    assert [text.get_text() for text in norm.texts] == ["1 not finite"]


def test_alarms_near_to_each_other_share_a_label():
    events = [*training(), *(Alarm(step, name, "", (), "") for step, name in ((20, "slow"), (20, "slow"), (5, "slow")))]
    names = [text.get_text().strip() for text in display.plot_curves(events).axes[0].texts]
    assert names == ["loss spike, slow", "slow"]


class Handle:
    def __init__(self) -> None:
        self.updates = []

    def update(self, thing) -> None:
        self.updates.append(thing)


@pytest.mark.parametrize("interactive", [True, False])
def test_a_live_plot_moves_in_place_for_somebody_and_is_one_figure_for_nobody(interactive, monkeypatch):
    import IPython.display

    shown, handle = [], Handle()
    monkeypatch.setattr(IPython.display, "display", lambda thing, **options: shown.append((thing, options)) or handle)
    monkeypatch.setattr("mindport.display.curves.PAUSE", 0.0)
    monkeypatch.setattr("mindport.display.curves.SHARE", math.inf)
    plot = display.LivePlot(interactive=interactive)
    for event in training(3):
        plot.take(event)
    assert (len(shown), len(handle.updates)) == ((1, 5) if interactive else (0, 0))
    plot.close()
    assert len(shown) == 1 and shown[0][1] == {"display_id": True}
    last = handle.updates[-1] if interactive else shown[0][0]
    assert list(last.axes[0].lines[0].get_xdata()) == [1, 2, 3]


def test_drawing_takes_no_more_than_its_share(monkeypatch):
    import IPython.display

    now, shown = [0.0], []
    monkeypatch.setattr(IPython.display, "display", lambda thing, **options: shown.append(now[0]) or Handle())
    monkeypatch.setattr(Handle, "update", lambda self, thing: shown.append(now[0]))
    monkeypatch.setattr("mindport.display.curves.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr("mindport.display.curves.plot_curves", lambda events: now.__setitem__(0, now[0] + 0.5))
    plot = display.LivePlot(interactive=True)
    for record in training(30)[1:31]:
        now[0] += 1.0
        plot.take(record)
    assert shown == [1.5, 12.0, 22.5]  # half a second to draw: every ten seconds
