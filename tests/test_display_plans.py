"""The planner's figures: what is drawn is what was planned, and each says that it is estimated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mindport import display
from mindport.display import plans
from mindport.errors import UsageError
from mindport.mindformers import parse_layout
from mindport.parallel.plan import bubble, memory_by_sequence, plan, scaling, schedule, zero_memory
from tests.parallel.plan.models import job

GB = 1e9


def small(figure) -> bool:
    picture = figure._repr_png_()
    return picture.startswith(b"\x89PNG") and len(picture) < 100_000


def labels(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_scaling_has_an_ideal_line_and_says_where_nothing_fits():
    it = job(global_batch=64)
    curves = {"strong": scaling(it, (8, 64)), "weak": scaling(it, (8, 64), weak=True)}
    figure = display.plot_scaling(curves)
    rates, shares = figure.axes
    assert [line.get_label() for line in rates.lines] == ["strong", "weak", "ideal"] and small(figure)
    assert list(rates.lines[0].get_ydata()) == [p.tokens_per_second for p in curves["strong"]]
    assert rates.lines[2].get_ydata()[1] == pytest.approx(8 * rates.lines[2].get_ydata()[0])
    assert list(shares.lines[1].get_ydata()) == [p.efficiency for p in curves["weak"]]
    assert all("(estimated)" in axes.get_title(loc="left") for axes in figure.axes) and not rates.texts
    none = [replace(point, layout=None) for point in curves["strong"][:1]]
    said = display.plot_scaling({"strong": [*none, *curves["strong"][1:]]}).axes[0].texts
    assert [text.get_text() for text in said] == ["nothing fits on 8"]


def test_memory_is_stacked_by_part_up_to_the_card_s_limit():
    it, layout = job(), parse_layout("dp8")
    points = {kind: memory_by_sequence(it, replace(layout, recompute=kind), (128, 256)) for kind in ("none", "full")}
    figure = display.plot_memory(points, limit=it.limit)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["none", "full"] and small(figure)
    for axes, rows in zip(figure.axes, points.values(), strict=True):
        top = max(path.vertices[:, 1].max() for stack in axes.collections for path in stack.get_paths())
        assert top == pytest.approx(sum(rows[-1][1].values()) / GB)
        assert axes.lines[0].get_ydata()[0] == pytest.approx(it.limit / GB)
    assert "estimated" in figure.axes[0].get_ylabel() and labels(figure.axes[1])[0] == "weights"


def test_zero_is_drawn_for_each_number_of_cards():
    figure = display.plot_zero(10**9, (2, 8), limit=5e9)
    (axes,) = figure.axes
    tops = [max(p.get_y() + p.get_height() for p in axes.patches if p.get_x() == x)
            for x in sorted({p.get_x() for p in axes.patches})]  # fmt: skip
    assert tops == pytest.approx([sum(parts.values()) / GB for n in (2, 8) for parts in zero_memory(10**9, n)])
    assert [t.get_text() for t in axes.texts] == ["ZeRO over 2 cards", "ZeRO over 8 cards"] and small(figure)
    assert sorted(labels(axes)) == ["gradients", "optimizer", "the card's 5 GB", "weights"]


def test_time_and_memory_of_layouts_are_bars_of_parts_in_the_colours_of_the_parts():
    ranked = plan(job(global_batch=64), keep=3).ranked
    time, fit = display.plot_time(ranked), display.plot_fit(ranked)
    for figure in (time, fit):
        assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == [str(c.layout) for c in ranked]
        assert figure.axes[0].yaxis_inverted() and small(figure)
    ends = [max(p.get_x() + p.get_width() for p in time.axes[0].patches if p.get_y() == y)
            for y in {p.get_y() for p in time.axes[0].patches}]  # fmt: skip
    assert ends == pytest.approx([100] * len(ranked))
    assert time.axes[0].texts[0].get_text() == f"{ranked[0].seconds:.3g} s"
    assert plans._colors(["optimizer", "weights"]) == plans._colors(["weights", "gradients", "optimizer"])[::-2]
    assert plans._colors(["compute", "optimizer"])[1] != plans._colors(["optimizer"])[0]


@pytest.mark.parametrize(("chunks", "written"), [(2, True), (8, False)])
def test_a_pipeline_s_picture_shows_every_pass_and_what_waits(chunks, written):
    it = schedule(4, 16, chunks)
    figure = display.plot_pipeline(it)
    (axes,) = figure.axes
    passes = axes.patches[it.stages :]
    assert len(passes) == len(it.work) and len(axes.texts) == written * len(it.work) and small(figure)
    waits = it.stages * it.span - sum(p.get_width() for p in passes)
    assert waits / (it.stages * it.span) == pytest.approx(bubble(4, 16, chunks))
    assert f"{it.idle:.1%} idle" in axes.get_title(loc="left") and labels(axes) == ["waits", "forward", "backward"]


def test_the_bubble_falls_with_the_micro_batches_and_the_rule_is_marked():
    figure = display.plot_bubble((2, 4), interleave=2)
    (axes,) = figure.axes
    four, rule, mixed = axes.lines[3:6]
    assert dict(zip(four.get_xdata(), four.get_ydata(), strict=True))[8] == pytest.approx(100 * bubble(4, 8))
    assert (min(rule.get_xdata()), max(rule.get_xdata())) == (8, 16)
    assert mixed.get_ydata()[4] == pytest.approx(100 * bubble(4, 8, 2)) and small(figure)
    assert labels(axes) == ["2 stages", "4 stages", "2 to 4 for each stage", "2 chunks, interleaved"]
    assert len(display.plot_bubble((2,), interleave=1).axes[0].lines) == 3


def test_the_views_answer_on_paper_and_as_pictures(monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", shown.append)
    display.explore(display.layout_view(job(), parse_layout("zero1")), interactive=False, devices=[8, 6], tp=[2, 8, 5])
    first, table = shown
    assert [row[2].split(" (")[0].split(":")[0] for row in table.rows] == [
        "dp4,tp2,pp1,zero1 fits", "dp1,tp8,pp1,zero1 is illegal", "UsageError", "dp3,tp2,pp1,zero1 fits",
        "UsageError", "UsageError"]  # fmt: skip
    first._ipython_display_()
    result, figure = shown[2:]
    assert result.ok and result.headline() == first.headline() and "estimated" in first.headline() and small(figure)
    refused = display.layout_view(job())(tp=8)
    refused._ipython_display_()
    assert len(shown) == 5 and not refused.result.ok and "kv heads % mp" in refused.headline()
    assert not display.layout_view(job(settings={"memory": 1e-3}))().result.ok
    with pytest.raises(UsageError, match="divide"):
        display.layout_view(job())(tp=3)
    assert "27.3%" in display.bubble_view(4, 8).headline() and small(display.bubble_view(4, 8).draw())
