"""The script whose launches `violence.py` ends: ranks that add for ever, each with a process beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


def main(how: str, steps: int) -> None:
    """Add over the ranks; after so many steps rank 1 does what `how` says."""
    subprocess.Popen(["sleep", "600"], start_new_session=True)  # as data loaders do, and nobody tells it to end
    print("started", flush=True)
    import numpy as np
    from mindspore import Tensor, ops
    from mindspore.communication import get_rank, init

    init()
    add, ones, rank = ops.AllReduce(), Tensor(np.ones(4, np.float32)), get_rank()
    print("joined", flush=True)
    for step in range(1 << 30):
        if step == steps and rank == 1:
            act(how)
        add(ones).asnumpy()
        time.sleep(0.05)


def act(how: str) -> None:
    """What a rank may do to its job; otherwise nothing."""
    if how == "raise":
        raise RuntimeError("on purpose")
    if how == "exit":
        sys.exit(3)
    if how == "leave":
        sys.exit(0)
    if how == "hang":
        time.sleep(600)
    if how == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
