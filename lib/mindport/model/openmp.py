"""How OpenMP's threads wait for work: asleep.

By default they spin for milliseconds after each kernel. On a CPU that takes the cores from MindSpore's own threads,
which run what lies between two kernels; and a thread that waits for one which has lost its core to another program
spins until that program lets go. Asleep, it costs a few microseconds to wake. `OMP_WAIT_POLICY` or `GOMP_SPINCOUNT`
in the environment keep their say: `OMP_WAIT_POLICY=active mindport bench step` shows the difference.

OpenMP reads its settings when it is loaded, by the first import of MindSpore, so `mindport.model` imports this first;
afterwards the environment is as it was, since the processes that this one starts may not want the same.
A program that imports mindspore before mindport sets the variable itself.
"""

from __future__ import annotations

import os

VARIABLE = "OMP_WAIT_POLICY"


def load_asleep() -> None:
    """Import MindSpore under that policy, unless the user has said how to wait."""
    said = VARIABLE in os.environ or "GOMP_SPINCOUNT" in os.environ
    if not said:
        os.environ[VARIABLE] = "passive"
    try:
        import mindspore  # noqa: F401
    finally:
        if not said:
            del os.environ[VARIABLE]


load_asleep()
