"""Run as a process by the tests of sudden ends: it saves checkpoints until something stops it.

python saver.py kill ROOT SOURCE       saves for ever, says each step that is on the disk
python saver.py events ROOT SOURCE     is killed before every change of the disk in turn, in forks of itself
python saver.py shards ROOT SOURCE     the same, of two processes that write one checkpoint (played by two threads)
python saver.py late ROOT SOURCE       the same of a writer that seals when all is in its place, which must not pass
python saver.py {exit,interrupt,full} ROOT SOURCE    ends while the thread is still writing
"""

from __future__ import annotations

import functools
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mindport.training.checkpoint import Checkpoints, Snapshot, write_share
from mindport.training.checkpoint.record import Record, write_record
from tests.training.checkpoint.ranks import ranks, shares
from tests.training.checkpoint.ranks import save as save_all
from tests.training.checkpoint.runs import snapshot

OPERATIONS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod"}
Save = Callable[[Path, Path, Snapshot], None]
CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def kill(root: Path, source: Path) -> None:
    """Saves in a thread, the newest and the best of them kept, from where the last process was stopped."""
    with Checkpoints(root, source, keep=1) as checkpoints:
        newest = checkpoints.newest()
        step = newest.step if newest else 0
        say("open")
        made, large = snapshot(source, 1, state={}), {"adam.m": np.random.default_rng(0).random(1 << 19, np.float32)}
        while True:
            step += 1
            checkpoints.save(Snapshot(step, made.weights, large, made.about), loss=1 / step)
            checkpoints.wait()
            say(step)


def events(root: Path, source: Path, save: Save) -> None:
    """For n = 0, 1, …: kill a save before its n-th change of the disk, then look at what is left; until one ends."""
    os.fsync = lambda _: None  # slow, and a killed process loses nothing that the system has
    made = snapshot(source, 1, state={"adam.step": np.array(1)})
    save(root, source, made)
    step, number, reached = 1, 0, []
    while True:
        one = Snapshot(step + 1, made.weights, made.state, made.about)
        ended = killed_at(number, functools.partial(save, root, source, one))
        with Checkpoints(root, source, keep=1) as checkpoints:  # sweeps
            names = sorted(path.name for path in root.iterdir())
            found = checkpoints.newest()
        assert found.step in (step, step + 1), (number, found.step)
        assert not checkpoints.refused, (number, checkpoints.refused)
        assert all(name.startswith("step-") or name == "best.json" for name in names), (number, names)
        assert f'"step": {found.step},' in (root / "best.json").read_text(), number
        reached.append(found.step - step)
        if ended:
            break
        step, number = found.step, number + 1
    assert set(reached) == {0, 1} and names == ["best.json", f"step-{found.step:08d}"], (reached, names)
    say(number)


def save_whole(root: Path, source: Path, one: Snapshot) -> None:
    with Checkpoints(root, source, keep=1, asynchronous=False) as checkpoints:
        checkpoints.save(one, loss=1 / one.step)


def save_shares(root: Path, source: Path, one: Snapshot) -> None:
    told = shares(1, 2)
    with ranks(root, source, told, keep=1) as every:
        save_all(every, told, one, 1 / one.step)


def save_sealed_late(root: Path, source: Path, one: Snapshot) -> None:
    """The control: the shares have the checkpoint's name before its record is there."""

    def write_late(whole: Path, record: Record) -> None:
        path = whole.rename(root / f"step-{one.step:08d}")
        write_record(path, record)

    write_share.write_record, write_share.put_in_place = write_late, lambda *_: None
    save_shares(root, source, one)


def killed_at(number: int, work: Callable[[], None]) -> bool:
    """Fork, and let the child die before its change of this number; whether the work ended before."""
    child = os.fork()
    if child == 0:
        left = [number]

        def watch(event: str, about: tuple) -> None:
            if event in OPERATIONS and (event != "open" or about[2] & CHANGES):
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1

        sys.addaudithook(watch)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return not os.WIFSIGNALED(status)


def end(root: Path, source: Path, how: str) -> None:
    """Nobody waits for the thread, and nobody closes."""
    checkpoints = Checkpoints(root, source)
    large = {"adam.m": np.zeros(1 << 22, np.float32)}
    made = snapshot(source, 1)
    if how == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    checkpoints.save(Snapshot(1, made.weights, large, made.about))
    if how == "interrupt":
        raise KeyboardInterrupt
    sys.exit(3)


def say(what: object) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    how, root, source = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    saves = {"events": save_whole, "shards": save_shares, "late": save_sealed_late}
    if how in saves:
        events(root, source, saves[how])
    elif how == "kill":
        kill(root, source)
    else:
        end(root, source, how)
