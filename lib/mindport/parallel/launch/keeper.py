"""The process between the launcher and msrun: it outlives the one and ends what the other started.

msrun gives each worker a session of its own, so that no signal to a group reaches it, and leaves the workers behind
when it is killed. What is orphaned below this process becomes its child; when the launcher ends, in whatever way, or
asks for it with SIGTERM, or msrun ends, all of it is killed. The kernel kills msrun when this process is killed, and so
on downwards (`worker.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from mindport.parallel.launch.environ import TOKEN
from mindport.process_table import adopt_orphans, below, die_with, end_all, has_ended, with_token

CODE = "import sys; sys.path[:] = filter(None, sys.path); from {} import main; main({})"  # without the user's folder
MSRUN = {False: CODE.format("mindspore.parallel.cluster.run", ""),
         True: CODE.format("mindport.parallel.launch.nursery", "sys.argv[1:]")}  # fmt: skip
LOOKS = 0.1  # seconds between two looks at the launcher


def main(arguments: Sequence[str]) -> None:
    """Run msrun.

    Args:
        arguments: the number of the launcher's process, "1" where ranks are forked, and msrun's own.
    """
    launcher, forks, *options = arguments
    wanted: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: wanted.append(number))  # not ignored: msrun would inherit that
    adopt_orphans()
    own = os.getpid()
    msrun = subprocess.Popen([sys.executable, "-c", MSRUN[forks == "1"], *options], stdin=subprocess.DEVNULL,
                             preexec_fn=lambda: die_with(own))  # fmt: skip
    while os.getppid() == int(launcher) and not wanted and not has_ended(msrun.pid):
        time.sleep(LOOKS)
    left = end_all(lambda: sorted({*below(own), *with_token(TOKEN, os.environ[TOKEN])}))
    if left:
        print(f"the kernel does not end these processes: {json.dumps(left)}", file=sys.stderr)
