"""The parts of a launch, without one: variables, ports, folders, logs, processes, and what is looked at before."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mindport.errors import BackendError, UsageError
from mindport.machine import cores
from mindport.parallel.launch import ports
from mindport.parallel.launch.environ import LEFT_BY_ANOTHER, TOKEN, job_environment
from mindport.parallel.launch.folder import claim
from mindport.parallel.launch.logs import Log, is_noise
from mindport.parallel.launch.nursery import is_ours
from mindport.parallel.launch.preflight import preflight
from mindport.process_table import below, die_with, end_all, is_running, with_token


def test_a_job_inherits_nothing_of_another_and_the_user_has_the_last_word(tmp_path, monkeypatch):
    for name in (*LEFT_BY_ANOTHER, "MS_DEV_JIT_SYNTAX_LEVEL"):
        monkeypatch.setenv(name, "7")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    environ = job_environment(tmp_path, 2, {"WORD": "x"})
    assert {name: environ.get(name) for name in LEFT_BY_ANOTHER if name != TOKEN} == dict.fromkeys(
        set(LEFT_BY_ANOTHER) - {TOKEN}
    )
    assert environ["MS_DEV_JIT_SYNTAX_LEVEL"] == "7" and environ["WORD"] == "x" and environ[TOKEN] == str(tmp_path)
    assert environ["OMP_NUM_THREADS"] == str(max(1, cores() // 2)) and environ["OMP_WAIT_POLICY"] == "active"
    assert environ["MS_CPU_COMM_OP_TIMEOUT"] == "600" and environ["MS_RETRY_INTERVAL_UPPER"] == "1"
    assert job_environment(tmp_path, 1000)["OMP_NUM_THREADS"] == "1"
    assert job_environment(tmp_path, 2, {"OMP_NUM_THREADS": "5"})["OMP_NUM_THREADS"] == "5"


def test_python_is_this_interpreter_whatever_its_name(tmp_path):
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "python3.x"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    for python in (sys.executable, str(other)):
        environ = job_environment(tmp_path / "job", 2, python=python)
        done = subprocess.run(["python", "-c", "import sys; print(sys.prefix)"], env=environ, capture_output=True,
                              text=True)  # fmt: skip
        assert done.stdout.strip() == sys.prefix, done.stderr


def test_leases_at_the_same_moment_have_different_ports():
    together = threading.Barrier(12)

    def hold() -> int:
        with ports.lease() as lease:
            together.wait(30)
            return lease.port

    with ThreadPoolExecutor(12) as pool:
        found = [each.result() for each in [pool.submit(hold) for _ in range(12)]]
    assert len(set(found)) == 12 and set(found) <= set(ports.port_range())


def test_a_port_is_leased_as_long_as_a_process_has_it_and_never_when_somebody_listens(monkeypatch):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setattr(ports, "port_range", lambda: range(port, port + 1))
        with pytest.raises(BackendError, match="no port is free"), ports.lease():
            pass
    with ports.lease() as lease:
        child = subprocess.Popen(["sleep", "60"], pass_fds=[lease.descriptor])
    with pytest.raises(BackendError), ports.lease():
        pass
    child.kill()
    child.wait()
    with ports.lease() as lease:
        assert lease.port == port


def test_a_folder_belongs_to_one_job_and_keeps_what_is_in_it(tmp_path):
    assert claim(tmp_path / "new" / "logs") == tmp_path / "new" / "logs"
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "notes.txt").write_text("mine")
    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(claim, [tmp_path / "theirs"] * 8))
    assert sorted(path.name for path in claimed) == [f"{number:04d}" for number in range(2, 10)]
    assert (tmp_path / "theirs" / "notes.txt").read_text() == "mine"
    with ThreadPoolExecutor(8) as pool:  # an empty folder is one job's, too
        assert len(set(pool.map(claim, [tmp_path / "empty"] * 8))) == 8


def test_a_log_is_read_as_it_grows(tmp_path):
    log = Log(tmp_path / "log")
    assert log.size == 0 and log.lines(0) == []
    with log.path.open("wb", buffering=0) as file:
        file.write(b"one\ntw")
        assert log.lines(log.size) == ["one"] and log.last == "one"
        file.write(b"o\nstep 1\rstep 2\r\n[WARNING] ME(1:2): noise\n" + b"\xff\nfailure\n")
        assert log.lines(log.size - len("failure\n")) == ["two", "step 2", "[WARNING] ME(1:2): noise", "�"]
        assert log.last == "�"
        file.write(b"no end")
        assert log.lines(log.size) == ["failure"] and log.rest() == ["no end"] and log.rest() == []


@pytest.mark.parametrize(
    ("line", "noise"),
    [("[WARNING] DISTRIBUTED(7618,7f865d,python):2026-11-30 x", True), ("[INFO] ME(1:2,MainProcess):2026 x", True),
     ("[ERROR] DISTRIBUTED(1,2,python): x", False), ("[CRITICAL] ME(1)", False), ("[WARNING] mine", False),
     ("loss 3.2", False)],
)  # fmt: skip
def test_noise_is_what_the_framework_says_to_itself(line, noise):
    assert is_noise(line) == noise


def test_everything_below_a_process_is_ended_and_nothing_else(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen(['sh', '-c', 'sleep 60 & sleep 60'], start_new_session=True)\n"
        "print('up', flush=True); time.sleep(60)\n"
    )
    environ = {**os.environ, TOKEN: str(tmp_path)}
    trees = [subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE) for _ in range(2)]
    for tree in trees:
        assert tree.stdout is not None and tree.stdout.readline() == b"up\n"
    limit = time.monotonic() + 20
    while any(len(below(tree.pid)) < 3 for tree in trees) and time.monotonic() < limit:
        time.sleep(0.02)
    assert set(below(trees[0].pid)) < set(with_token(TOKEN, str(tmp_path)))
    assert end_all(lambda: below(trees[0].pid)) == [] and below(trees[0].pid) == []
    assert is_running(trees[0].pid) and len(below(trees[1].pid)) == 3
    assert end_all(lambda: with_token(TOKEN, str(tmp_path))) == []
    assert [tree.wait() for tree in trees] == [-signal.SIGKILL] * 2


def test_a_process_whose_parent_has_ended_already_ends_itself():
    pid = os.fork()
    if not pid:
        die_with(1 << 22)  # no parent has this number
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_nobody_else_has_ranks_forked(monkeypatch):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert is_ours(ours)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not is_ours(ours)


def test_a_layout_is_looked_at_before_the_start():
    good = preflight(4, dp=2, tp=2)
    assert good.ok and good.exit_code == 0 and not [row for row in good.rows if row.state == "failed"]
    good.require()
    bad = preflight(3, dp=2)
    assert [row.name for row in bad.rows if row.state == "failed"] == ["layout"]
    assert not bad.ok and "look at:" in bad.headline() and "layout" in bad.headline()
    with pytest.raises(UsageError, match="layout"):
        bad.require()


def test_more_workers_than_cores_or_memory_is_doubtful_only(monkeypatch):
    monkeypatch.setattr("mindport.parallel.launch.preflight.cores", lambda: 2)
    monkeypatch.setattr("mindport.parallel.launch.preflight.available_memory", lambda: 2**30)
    found = preflight(3)
    assert found.ok and [line.split(":")[0] for line in found.warnings()] == ["cores", "memory"]
    monkeypatch.setattr("mindport.parallel.launch.preflight.available_memory", lambda: None)
    assert preflight(2).warnings() == []


def test_a_machine_that_cannot_launch_is_said(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BackendError, match="system"):
        preflight(2).require()
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BackendError, match="msrun"):
        preflight(2).require()
