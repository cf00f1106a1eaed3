"""How OpenMP's threads wait for work: asleep.

By default they spin for milliseconds after each kernel. On a CPU that takes the cores from MindSpore's own threads,
which run what lies between two kernels; and a thread that waits for one which has lost its core to another program
spins until that program lets go. Asleep, it costs a few microseconds to wake. `OMP_WAIT_POLICY` or `GOMP_SPINCOUNT`
in the environment keep their say: `OMP_WAIT_POLICY=active mindport bench step` shows the difference.

OpenMP reads its settings when it is loaded, by the first import of MindSpore, so `mindport.model` imports this first.
A program that imports mindspore before mindport sets the variable itself.
"""

from __future__ import annotations

import os


def sleep_while_waiting() -> None:
    """Ask for it, unless the user has said how to wait."""
    if "GOMP_SPINCOUNT" not in os.environ:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")


sleep_while_waiting()
