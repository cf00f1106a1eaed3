"""Checkpoints from one layout to another, without devices: MindSpore moves the bytes, numpy proves where they went.

    a MindPort directory ─┐                                      ┌─ rank_0 … rank_{n-1}, strategy files, a manifest
    folders rank_0 … ─────┴─ a few arrays at a time: gather, ────┴─ a MindPort directory (--to dp1)
                             scatter, compare, write

Nothing here imports a framework: MindSpore works in a process of its own.
"""

from mindport.parallel.reshard.places import Entry, Grid, Place, part, place
from mindport.parallel.reshard.report import Resharded
from mindport.parallel.reshard.reshard import reshard

__all__ = ["Entry", "Grid", "Place", "Resharded", "part", "place", "reshard"]
