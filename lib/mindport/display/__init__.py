"""What only the notebooks show: widgets with a static twin, planted faults, sources side by side, plots.

IPython, ipywidgets and matplotlib are imported when they are needed; nothing but the notebooks, the command line
and the tests imports this room.
"""

from mindport.display.code import side_by_side, source
from mindport.display.faults import expect_fault
from mindport.display.plots import bars, error_by_layer, error_by_position, lines
from mindport.display.widgets import explore

__all__ = ["bars", "error_by_layer", "error_by_position", "expect_fault", "explore", "lines", "side_by_side", "source"]
