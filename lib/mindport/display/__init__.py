"""What only the notebooks show: widgets with a static twin, planted faults, sources, plots.

IPython, ipywidgets and matplotlib are imported when they are needed; nothing but the notebooks, the command line
and the tests imports this room.
"""

from mindport.display.bars import bars
from mindport.display.code import source
from mindport.display.curves import LivePlot, plot_curves
from mindport.display.faults import expect_fault
from mindport.display.plots import curves_beside_torch, error_by_layer, error_by_position, lines, training_curves
from mindport.display.widgets import explore

__all__ = [
    "LivePlot",
    "bars",
    "curves_beside_torch",
    "error_by_layer",
    "error_by_position",
    "expect_fault",
    "explore",
    "lines",
    "plot_curves",
    "source",
    "training_curves",
]
