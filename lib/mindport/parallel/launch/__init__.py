"""Processes that compute together: started by MindSpore's msrun, watched, and ended whole, whatever happens.

    launch(SCRIPT, ["--steps", "20"], workers=2)           → LaunchReport: how each rank ended, whose fault it was
    call("package.module:function", {"steps": 20}, workers=2)   → what the function returned on each rank

Nothing here imports a framework.
"""
