"""What only the notebooks show: widgets with a static twin, planted faults, sources, plots.

IPython, ipywidgets and matplotlib are imported when they are needed; nothing but the notebooks, the command line
and the tests imports this room.
"""

from mindport.display.bars import bars
from mindport.display.code import source
from mindport.display.curves import LivePlot, plot_curves
from mindport.display.faults import expect_fault
from mindport.display.pipelines import plot_bubble, plot_pipeline
from mindport.display.plans import plot_fit, plot_memory, plot_scaling, plot_time, plot_zero
from mindport.display.plots import curves_beside_torch, error_by_layer, error_by_position, lines, training_curves
from mindport.display.views import bubble_view, layout_view
from mindport.display.widgets import explore

__all__ = [
    "LivePlot",
    "bars",
    "bubble_view",
    "curves_beside_torch",
    "error_by_layer",
    "error_by_position",
    "expect_fault",
    "explore",
    "layout_view",
    "lines",
    "plot_bubble",
    "plot_curves",
    "plot_fit",
    "plot_memory",
    "plot_pipeline",
    "plot_scaling",
    "plot_time",
    "plot_zero",
    "source",
    "training_curves",
]
