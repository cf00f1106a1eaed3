"""Start a job, watch it, and end it whole: in this thread, without others, so that it works in a notebook as well."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mindport.errors import BackendError, UsageError
from mindport.files import write_json
from mindport.parallel.launch import records
from mindport.parallel.launch.environ import TOKEN, job_environment
from mindport.parallel.launch.folder import claim
from mindport.parallel.launch.judge import Facts, first_failure, hints, rank_ends
from mindport.parallel.launch.keeper import CODE
from mindport.parallel.launch.ports import HOST, Lease, lease
from mindport.parallel.launch.report import LaunchReport
from mindport.parallel.launch.watch import Watch
from mindport.process_table import end_all, with_token

LOOKS = 0.1  # seconds between two looks
OTHERS = 1.0  # seconds that the other ranks have to say what they met, once one has failed
GRACE = 5.0  # seconds that the ranks have to end by themselves when the launcher is interrupted
JOIN = 600.0  # seconds until all ranks have to have joined
KEEPER = 20.0  # seconds for the keeper to end everything
PORTS = 3  # attempts, where another program takes the port in between
KEEPER_CODE = CODE.format("mindport.parallel.launch.keeper", "sys.argv[1:]")
WORKER = Path(__file__).with_name("worker.py")
NO_TAIL = 1 << 30  # msrun copies the log of this worker only to its own output


@dataclass(frozen=True)
class Job:
    """What is to be run.

    Attributes:
        what: a script's path, or `package.module:function`.
        arguments: words for a script, keywords for a function.
        workers: ranks.
        folder: of logs and records, where it is this job's alone; otherwise one in it. Without, a temporary one.
        timeout: seconds for the whole; None: no limit.
        join_timeout: seconds until every rank has to have called `init()`.
        grace: seconds that ranks have to end by themselves after SIGTERM, when the launcher is interrupted.
        environ: variables that go before everything else.
        say: what is done with a line for the user.
        fork: MindSpore is imported once, and the ranks are forked, where that can be done; see `nursery.py`.
    """

    what: str
    arguments: Sequence[str] | Mapping[str, Any]
    workers: int
    folder: Path | None
    timeout: float | None = None
    join_timeout: float = JOIN
    grace: float = GRACE
    environ: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = print
    fork: bool = False

    def order(self) -> dict[str, Any]:
        """What the ranks read."""
        if isinstance(self.arguments, Mapping):
            return {"function": self.what, "arguments": dict(self.arguments), "path": [str(Path.cwd()), *sys.path]}
        return {"function": "", "script": self.what, "arguments": list(self.arguments)}


def launch(
    script: Path | str, arguments: Sequence[str] = (), *, workers: int, log_dir: Path | str | None = None,
    timeout: float | None = None, join_timeout: float = JOIN, grace: float = GRACE,
    environ: Mapping[str, str] | None = None, say: Callable[[str], None] | None = None,
) -> LaunchReport:  # fmt: skip
    """Run a script in several processes that can compute together.

    Each runs the script from its first line; MindSpore's scheduler, which msrun starts beside them, does not.

    Args:
        script: a Python file.
        arguments: its words.
        workers: processes.
        log_dir: for logs and records; where something is in it already, a numbered folder in it is made. By default
            one in `runs/launch`.
        timeout: seconds for the whole; None: no limit.
        join_timeout: seconds until every rank has to have called `mindspore.communication.init()`.
        grace: seconds that the ranks have to end by themselves, after SIGTERM, when this process is interrupted.
        environ: variables of the processes, which go before everything else.
        say: called with each line that the ranks print, as `[rank 1] …`, and with each line of progress; by default
            they are printed.

    Raises:
        UsageError: there is no such script, or not so many workers can be had.
        BackendError: there is no msrun here.
        KeyboardInterrupt, SystemExit: as they came; the job has been ended by then.
    """
    path = Path(script)
    if not path.is_file():
        raise UsageError("there is no such script", where=path, do="name a Python file")
    folder = Path("runs", "launch") if log_dir is None else Path(log_dir)
    return run(Job(str(path), [str(word) for word in arguments], workers, folder, timeout, join_timeout, grace,
                   environ or {}, say or show))  # fmt: skip


def run(job: Job) -> LaunchReport:
    """Run a job to its end; see `launch`."""
    from mindport.parallel.launch.preflight import preflight  # not for the ranks, which import this package as well

    before = preflight(job.workers)
    before.require()
    for warning in before.warnings():
        job.say(f"warning: {warning}")
    job = replace(job, folder=claim(job.folder or Path(tempfile.mkdtemp(prefix="mindport-launch-"))))
    write_json(job.folder / records.JOB, job.order())
    (job.folder / records.FOLDER).mkdir(exist_ok=True)
    script = "" if isinstance(job.arguments, Mapping) else f"{job.what}: "  # whose function it is, users need not know
    job.say(f"{script}{job.workers} ranks, logs in {job.folder}")
    return _report(job)


def _report(job: Job) -> LaunchReport:
    """Run a job in its folder, again where its port is taken."""
    for _ in range(PORTS):
        watch = Watch(job.folder, job.workers, job.say)
        facts, stopped = _attempt(job, watch)
        if not watch.port_taken:
            first = first_failure(facts)
            return LaunchReport(job.what, job.workers, watch.seconds, job.folder,
                                rank_ends(facts, watch.began, stopped), None if first is None else first.rank, stopped,
                                hints(facts))  # fmt: skip
        job.say("another program has taken the scheduler's port meanwhile: once more, with another one")
        records.clear(job.folder, job.workers)
    raise BackendError("the scheduler's port is taken each time", got=f"{PORTS} attempts",
                       do="look who listens: ss -ltnp")  # fmt: skip


def _attempt(job: Job, watch: Watch) -> tuple[list[Facts], str]:
    """How the ranks stand when the job is over, and why the launcher ended it; nothing of it runs afterwards."""
    with lease() as port, _keeper(job, port) as keeper:
        try:
            stopped = _wait(job, watch, keeper)
            facts = watch.look()
        except BaseException:
            _end_gently(job, watch)
            raise
    watch.finish()
    return facts, stopped


def _wait(job: Job, watch: Watch, keeper: subprocess.Popen[bytes]) -> str:
    """Until every rank has ended, one has failed, time is up, or msrun is gone; why it was, where that was us."""
    failed_at: float | None = None
    while True:
        over = keeper.poll() is not None  # before the look, which is then the last
        facts = watch.look()
        # MindSpore takes seconds to leave a cluster; where every answer is there, nothing is waited for
        if over or watch.port_taken or all(rank.is_over or rank.has_returned for rank in facts):
            return ""
        if failed_at is None and first_failure(facts) is not None:
            failed_at = watch.seconds
        if failed_at is not None and watch.seconds > failed_at + OTHERS:
            return ""
        if failed_at is None and watch.scheduler_is_lost():
            return "MindSpore's scheduler ended before the ranks: its log says why, unless somebody killed it"
        if failed_at is None and (late := _late(job, watch, facts)):
            watch.ask_for_stacks()
            return late
        time.sleep(LOOKS)


def _late(job: Job, watch: Watch, facts: Sequence[Facts]) -> str:
    """Which limit is exceeded."""
    if job.timeout is not None and watch.seconds > job.timeout:
        return f"the job did not end within {job.timeout:g} s"
    missing = [rank.rank for rank in facts if rank.rank not in watch.joined and not rank.is_over]
    if missing and watch.seconds > job.join_timeout:
        names = ", ".join(map(str, missing))
        return f"rank {names} did not call mindspore.communication.init() within {job.join_timeout:g} s"
    return ""


def _end_gently(job: Job, watch: Watch) -> None:
    """Ask the ranks to end, and wait a moment for those that have something to write first."""
    watch.tell_ranks(signal.SIGTERM)
    limit = time.monotonic() + job.grace
    while time.monotonic() < limit and not all(rank.is_over or rank.started is None for rank in watch.look()):
        time.sleep(LOOKS)


@contextlib.contextmanager
def _keeper(job: Job, port: Lease) -> Iterator[subprocess.Popen[bytes]]:
    """The process that runs msrun; after the block nothing of the job is left."""
    options = {
        "worker_num": job.workers, "local_worker_num": job.workers, "master_addr": HOST, "master_port": port.port,
        "log_dir": job.folder, "join": True, "cluster_time_out": int(job.join_timeout) + 60, "tail_worker_log": NO_TAIL,
    }  # fmt: skip
    command = [sys.executable, "-c", KEEPER_CODE, str(os.getpid()), str(int(job.fork))]
    command += [*(f"--{name}={value}" for name, value in options.items()), str(WORKER)]
    environ = job_environment(job.folder, job.workers, job.environ)
    with (job.folder / "msrun.log").open("ab") as log:
        keeper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ,
                                  start_new_session=True, pass_fds=[port.descriptor])  # fmt: skip
    try:
        yield keeper
    finally:
        keeper.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            keeper.wait(KEEPER)
        end_all(lambda: with_token(TOKEN, str(job.folder)))  # what is left where the keeper itself was killed
        keeper.wait()


def show(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)
