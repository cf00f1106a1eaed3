"""The same training under several layouts, and whether they are the same: to be run after every change of one.

    compare_layouts(config, ("dp2", "tp2", "dp2,tp2"), out)   → LayoutParity

worker     what each process does: the trainings of one number of processes, one after the other
compare    starts them, beside one process, and reads what they left
parity     the answer
"""

from mindport.parallel.layouts.compare import compare_layouts
from mindport.parallel.layouts.parity import LayoutParity, LayoutRun, ProcessShare

__all__ = ["LayoutParity", "LayoutRun", "ProcessShare", "compare_layouts"]
