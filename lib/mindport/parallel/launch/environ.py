"""The variables of a job: none that an earlier one left, and those that msrun and its processes need.

msrun calls plain `python`, so that the folder of the interpreter goes first on PATH.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from mindport.files import write_text
from mindport.machine import cores
from mindport.processes import environment

TOKEN = "MINDPORT_LAUNCH"  # in every process of a job: its folder
NURSERY = "MINDPORT_NURSERY"  # the address where ranks are forked; in the environment of msrun and what it starts
LEFT_BY_ANOTHER = (
    TOKEN, NURSERY, "DEVICE_ID", "RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE", "MS_ROLE", "MS_WORKER_NUM", "MS_SERVER_NUM",
    "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_NODE_ID", "MS_WORKER_IP", "MS_TOPO_TIMEOUT", "MS_SIMULATION_LEVEL",
    "MS_ENABLE_RECOVERY", "MSRUN_BIND_FILE", "MSRUN_BIND_FILE_HASH",
)  # fmt: skip
PATIENCE = 600  # seconds; MindSpore lets a collective wait for 30 only, less than one rank may need for a checkpoint


def job_environment(
    folder: Path, workers: int, settings: Mapping[str, str] | None = None, python: str = sys.executable
) -> dict[str, str]:
    """All variables of a job's processes.

    Args:
        folder: of the job.
        workers: that share the cores.
        settings: go before everything else.
        python: the interpreter.
    """
    ours = {name: value for name, value in environment().items() if name not in LEFT_BY_ANOTHER}
    defaults = {
        "OMP_NUM_THREADS": str(max(1, cores() // workers)),
        "OMP_WAIT_POLICY": "passive",  # a rank that waits leaves the core to the one it waits for
        "MS_CPU_COMM_OP_TIMEOUT": str(PATIENCE),
        "MS_RETRY_INTERVAL_LOWER": "1",  # seconds between two heartbeats, which ranks wait for as they join and leave
        "MS_RETRY_INTERVAL_UPPER": "1",  # MindSpore's own are 3 and 5
    }
    always = {
        TOKEN: str(folder),
        "PATH": os.pathsep.join(filter(None, (_folder_of_python(folder, python), ours.get("PATH")))),
        "PYTHONUNBUFFERED": "1",
    }
    return {**defaults, **ours, **always, **(settings or {})}


def _folder_of_python(folder: Path, python: str) -> str:
    """A folder in which `python` is this interpreter; some have it under another name only."""
    here = Path(python).parent
    found = shutil.which("python", path=str(here))
    if found and Path(found).samefile(python):
        return str(here)
    script = write_text(folder / "bin" / "python", f'#!/bin/sh\nexec "{python}" "$@"\n')
    script.chmod(0o755)
    return str(script.parent)
