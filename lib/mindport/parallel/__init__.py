"""Step 06: several processes here, and a plan for the cluster.

launch/      processes that compute together, over MindSpore's msrun; nothing of them outlives anything
join         in one of them: meet the others
train        a training on as many processes as its configuration asks for
layouts/     the same training under several layouts, held to one process
reshard/     a checkpoint in another layout, without devices
plan/        which layout fits a cluster and is fastest: estimates, held to published rows
route/       from a plan to the files that start it: YAML, msrun, dry run, check-list
ascend/      the script that trains our model under MindSpore's own parallel modes
variables    which environment variables exist
lessons/     what notebook 06 shows besides

The names below are looked up when they are asked for: most of the room needs no framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mindport.parallel.layouts import compare_layouts
    from mindport.parallel.route import write_route
    from mindport.parallel.variables import check_variables

__all__ = ["check_variables", "compare_layouts", "write_route"]

_MODULES = {"check_variables": "variables", "compare_layouts": "layouts", "write_route": "route"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
