"""Processes that compute together: started by MindSpore's msrun, watched, and ended whole, whatever happens.

    launch(SCRIPT, ["--steps", "20"], workers=2)           → LaunchReport: how each rank ended, whose fault it was
    call("package.module:function", {"steps": 20}, workers=2)   → what the function returned on each rank

    launcher (this process, or a notebook's kernel)
    └── keeper.py       in a session of its own; ends everything below it when the launcher ends or asks for it
        └── msrun
            ├── worker.py       as MindSpore's scheduler: runs nothing of the user's
            └── worker.py       of a rank: waits for the next, and writes down how it ended
                └── the rank: runs the script

Nothing here imports a framework.
"""

from mindport.parallel.launch.call import LaunchFailed, call
from mindport.parallel.launch.job import launch
from mindport.parallel.launch.report import LaunchReport, RankEnd

__all__ = ["LaunchFailed", "LaunchReport", "RankEnd", "call", "launch"]
