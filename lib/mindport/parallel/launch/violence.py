"""End launches by force, at random moments and in every way that is known, and count what is left of them.

    python -m mindport.parallel.launch.violence --times 20

Half of them are `mindport launch`, whose ranks import MindSpore each; half are `call`, which forks them. Counted is by
the kernel's process table: every process that was started with the job's token, whoever its parent is.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindport.parallel.launch import records
from mindport.parallel.launch.environ import TOKEN
from mindport.process_table import PROC, end_all, is_running, with_token
from mindport.processes import ending, environment
from mindport.results import Property, Result, verdict
from mindport.tables import Table

VICTIM = Path(__file__).with_name("victim.py")
LATEST = 14.0  # seconds after the start, for a blow from outside
AFTER_JOINING = 3.0  # seconds after the last rank has joined, for half of them
GONE = 20.0  # seconds that are waited for the last process
LONGEST = 120.0  # seconds of one launch
TERMINATED, INTERRUPTED = 143, 130  # exit codes of the command line
OF_PYTHON = {TERMINATED: -signal.SIGTERM, INTERRUPTED: -signal.SIGINT}  # of a program without a handler
CALL = (
    "import sys; from mindport.parallel.launch import call; n, folder, how, steps, timeout, patience = sys.argv[1:]; "
    "call('mindport.parallel.launch.victim:main', {'how': how, 'steps': int(steps)}, workers=int(n), log_dir=folder, "
    "grace=1.0, timeout=float(timeout), environ={'MS_CPU_COMM_OP_TIMEOUT': patience})"
)


@dataclass(frozen=True)
class Way:
    """A way to end a launch.

    Attributes:
        name: in words.
        code: that the launcher ends with.
        victim: what rank 1 does, see `victim.act`; empty when the blow comes from outside.
        target: which process is hit: a role (see `_find`); two are hit one after the other.
        number: by which signal.
        timeout: seconds of the job.
        patience: seconds that a collective waits.
    """

    name: str
    code: int
    victim: str = ""
    target: tuple[str, ...] = ()
    number: int = signal.SIGKILL
    timeout: int = 120
    patience: int = 600


WAYS = (
    Way("the launcher killed", -signal.SIGKILL, target=("launcher",)),
    Way("the launcher, SIGTERM", TERMINATED, target=("launcher",), number=signal.SIGTERM),
    Way("the launcher, SIGINT", INTERRUPTED, target=("launcher",), number=signal.SIGINT),
    Way("the launcher, SIGHUP", -signal.SIGHUP, target=("launcher",), number=signal.SIGHUP),
    Way("its process group killed, as a kernel's restart does", -signal.SIGKILL, target=("group",)),
    Way("msrun killed", 1, target=("msrun",)),
    Way("msrun, SIGTERM", 1, target=("msrun",), number=signal.SIGTERM),
    Way("the scheduler killed", 1, target=("scheduler",)),
    Way("msrun's parent killed", 1, target=("parent of msrun",)),
    Way("the keeper killed", 1, target=("keeper",)),
    Way("launcher and keeper killed", -signal.SIGKILL, target=("launcher", "keeper")),
    Way("a rank killed", 1, target=("rank",)),
    Way("the process that waits for a rank killed", 1, target=("waiter",)),
    Way("a rank raises", 1, victim="raise"),
    Way("a rank exits with 3", 1, victim="exit"),
    Way("a rank crashes", 1, victim="crash"),
    Way("a rank leaves with 0", 1, victim="leave", patience=5),
    Way("a rank hangs", 1, victim="hang", timeout=40),
)


@dataclass(frozen=True)
class Blow:
    """One launch that was ended.

    Attributes:
        way: how.
        moment: when it was hit, or after which step a rank hit its own job.
        before: processes of the job that were seen at most.
        code: how the launcher ended.
        expected: how it should.
        gone: seconds from the blow, or from the launcher's end, until no process was left.
        left: commands of those that stayed.
    """

    way: str
    moment: str
    before: int
    code: int | None
    expected: int
    gone: float
    left: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there were processes, none is left, and the launcher ended as it should."""
        return self.before > 0 and not self.left and self.code == self.expected


@dataclass(frozen=True)
class Violence(Result):
    """All of them."""

    blows: tuple[Blow, ...]

    @property
    def ok(self) -> bool:
        return bool(self.blows) and all(blow.ok for blow in self.blows)

    def headline(self) -> str:
        left, seen = sum(len(blow.left) for blow in self.blows), sum(blow.before for blow in self.blows)
        wrong = sum(blow.code != blow.expected for blow in self.blows)
        codes = f", {wrong} launchers ended otherwise than they should" if wrong else ""
        return f"{len(self.blows)} launches ended by force: {left} of {seen} processes left{codes}"

    def tables(self) -> tuple[Table, ...]:
        rows = [(blow.way, blow.moment, "–" if blow.code is None else ending(blow.code), blow.before, len(blow.left),
                 f"{blow.gone:.1f}", "; ".join(blow.left)) for blow in self.blows]  # fmt: skip
        return (Table("Launches ended by force", ("how", "when", "the launcher ended with", "processes before", "left",
                                                  "gone after, s", "which"), rows),)  # fmt: skip

    def properties(self) -> tuple[Property, ...]:
        left = sum(len(blow.left) for blow in self.blows)
        return (verdict("a launched job leaves no process behind, however it ends", self.ok,
                        f"{len(self.blows)} launches ended by force, counted in the process table",
                        f"{left} left (limit 0)", "CPU"),)  # fmt: skip


def end_by_force(times: int = 20, workers: int = 2, seed: int = 0) -> Violence:
    """Launch so many times, each time end it in the next way, and count.

    Args:
        times: launches.
        workers: ranks of each.
        seed: of the moments.
    """
    draw, blows = random.Random(seed), []
    with tempfile.TemporaryDirectory(prefix="mindport-violence-") as folder:
        for number in range(times):
            way, fork = WAYS[number % len(WAYS)], (number + number // len(WAYS)) % 2 == 1
            blows.append(strike(way, fork, workers, Path(folder) / str(number), draw))
            print(Violence((blows[-1],)).text(), file=sys.stderr, flush=True)
    return Violence(tuple(blows))


def strike(way: Way, fork: bool, workers: int, folder: Path, draw: random.Random) -> Blow:
    """One launch and its end."""
    joined = draw.random() < 0.5
    steps, moment = draw.randrange(20), draw.uniform(0.2, AFTER_JOINING if joined else LATEST)
    command, seen = [sys.executable, *_words(way, fork, str(workers), str(folder), str(steps))], 0
    with (folder.parent / f"{folder.name}.log").open("wb") as log:
        launcher = subprocess.Popen(command, env=environment(), stdout=log, stderr=log, start_new_session=True)
    began = clock = time.monotonic()
    struck, waits = not way.target, joined
    while launcher.poll() is None and time.monotonic() - began < LONGEST:
        seen = max(seen, len(there := with_token(TOKEN, str(folder))))
        if waits and all(_has_joined(folder, rank) for rank in range(workers)):
            clock, waits = time.monotonic(), False
        if there and not struck and not waits and time.monotonic() - clock >= moment:
            struck = _hit(way, launcher.pid, folder)
        time.sleep(0.1)
    ended = time.monotonic()
    while (left := with_token(TOKEN, str(folder))) and time.monotonic() < ended + GONE:
        time.sleep(0.05)
    expected = OF_PYTHON.get(way.code, way.code) if fork else way.code
    name = f"{way.name}; forked ranks" if fork else way.name
    blow = Blow(name, _moment(way, moment, joined, steps), seen, launcher.poll(), expected,
                time.monotonic() - ended, tuple(map(_command, left)))  # fmt: skip
    end_all(lambda: with_token(TOKEN, str(folder)))
    launcher.kill()
    launcher.wait()
    return blow


def _moment(way: Way, moment: float, joined: bool, steps: int) -> str:
    when = "after joining" if joined else "after the start"
    return f"{moment:.1f} s {when}" if way.target else f"step {steps}"


def _has_joined(folder: Path, rank: int) -> bool:
    log = records.log_path(folder, rank)
    return log.is_file() and "joined" in log.read_text(errors="replace").split()


def _words(way: Way, fork: bool, workers: str, folder: str, steps: str) -> list[str]:
    """Of the launcher, after `python`."""
    how, timeout, patience = way.victim or "go on", str(way.timeout), str(way.patience)
    if fork:
        return ["-c", CALL, workers, folder, how, steps, timeout, patience]
    options = {"workers": workers, "log-dir": folder, "grace": "1", "timeout": timeout,
               "env": f"MS_CPU_COMM_OP_TIMEOUT={patience}"}  # fmt: skip
    return [
        "-m",
        "mindport",
        "launch",
        *(f"--{key}={value}" for key, value in options.items()),
        str(VICTIM),
        how,
        steps,
    ]


def _hit(way: Way, launcher: int, folder: Path) -> bool:
    """Whether the processes were there to be hit; a role that has not begun yet is waited for."""
    pids = [_find(role, launcher, folder) for role in way.target]
    if not all(pids):
        return False
    for role, pid in zip(way.target, pids, strict=True):
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if role == "group" else os.kill)(pid, way.number)
    return True


def _find(role: str, launcher: int, folder: Path) -> int:
    """The process of this role; 0 while there is none."""
    if role in ("launcher", "group"):
        return launcher
    if role in ("rank", "waiter", "scheduler"):
        started = records.read(folder, None if role == "scheduler" else 1, records.Started)
        return 0 if started is None else started.keeper if role == "waiter" else started.pid
    commands = {pid: _command(pid) for pid in sorted(with_token(TOKEN, str(folder)))}
    forks = [pid for pid, command in commands.items() if "launch.nursery import" in command]  # then msrun, then ranks
    keepers = [pid for pid, command in commands.items() if "launch.keeper import" in command]
    runs = [pid for pid, command in commands.items() if "cluster.run import" in command]
    found = {"keeper": keepers, "msrun": runs + forks[1:], "parent of msrun": forks or keepers * bool(runs)}[role]
    return found[0] if found and is_running(found[0]) else 0


def _command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "gone"


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    result = end_by_force(**vars(parser.parse_args(arguments)))
    print(result.text())
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
