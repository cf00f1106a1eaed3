"""msrun: starts the scheduler and the workers with bare `python`, the latter in sessions of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time


def main() -> None:
    options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
    script, workers = sys.argv[-1], int(options["worker_num"])
    os.environ.update(MS_SCHED_PORT=options["master_port"], MS_WORKER_NUM=str(workers))
    scheduler = start(script, "MS_SCHED", 0, f"{options['log_dir']}/scheduler.log")
    ranks = [start(script, "MS_WORKER", rank, f"{options['log_dir']}/worker_{rank}.log") for rank in range(workers)]
    while any(rank.poll() is None for rank in ranks):
        time.sleep(0.05)
    scheduler.wait()


def start(script: str, role: str, rank: int, log: str) -> subprocess.Popen[bytes]:
    environ = {**os.environ, "MS_ROLE": role, "RANK_ID": str(rank)}
    with open(log, "w") as file:
        return subprocess.Popen(["python", script], env=environ, stdout=file, stderr=subprocess.STDOUT,
                                preexec_fn=os.setsid if role == "MS_WORKER" else None)  # fmt: skip
