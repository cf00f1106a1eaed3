"""`init()` of the scheduler waits, as MindSpore's does; it knows a rank by a file of the rank."""

from __future__ import annotations

import os
import time
from pathlib import Path


def init() -> None:
    here = Path(os.environ["MINDPORT_LAUNCH"])
    if os.environ["MS_ROLE"] == "MS_WORKER":
        (here / f"joins-{os.environ['RANK_ID']}").touch()
        return
    if os.environ.get("STAND_IN_PORT_TAKEN") == os.environ["MS_SCHED_PORT"] or (here / "taken-once").exists():
        (here / "taken-once").unlink(missing_ok=True)
        print("[ERROR] DISTRIBUTED(1) Failed to create the TCP server.", flush=True)
        time.sleep(600)
    seen: set[str] = set()
    while True:
        for name in {path.name for path in here.glob("joins-*")} - seen:
            seen.add(name)
            rank = name.removeprefix("joins-")
            print(f"[WARNING] D(1) The new node: {rank}, rank id: {rank}, ip: 127.0.0.1 is registered successfully.",
                  flush=True)  # fmt: skip
        time.sleep(0.05)
