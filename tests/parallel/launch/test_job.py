"""A job from its start to its end: what ran, what was said, who is blamed, and that nothing stays behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mindport.errors import BackendError, UsageError
from mindport.parallel.launch import LaunchFailed, LaunchReport, call, job, launch
from mindport.parallel.launch.environ import TOKEN
from mindport.process_table import is_running, with_token
from mindport.processes import environment
from tests.parallel.launch.conftest import ENVIRON


def nothing_left(report: LaunchReport) -> bool:
    return with_token(TOKEN, str(report.log_dir)) == []


def test_each_rank_runs_the_script_as_python_would_and_the_scheduler_does_not(start, lines, tmp_path):
    report = start(
        "import json, __main__\n"
        "from mindspore.communication import init\n"
        "print(json.dumps([sys.argv, sys.path[0], __name__, __main__.__file__, os.getcwd()]))\n"
        "print('[WARNING] ME(1:2,MainProcess):2026 noise'); print('no end', end='')\n"
        "init()\n",
        "--steps", "two words", "--", "--json",
    )  # fmt: skip
    assert report.ok and report.exit_code == 0 and nothing_left(report), report.text()
    script = str(tmp_path / "folder of scripts" / "job.py")
    words = [script, "--steps", "two words", "--", "--json"]
    for rank in range(2):
        said = [line.removeprefix(f"[rank {rank}] ") for line in lines if line.startswith(f"[rank {rank}]")]
        assert json.loads(said[0]) == [words, str(Path(script).parent), "__main__", script, str(Path.cwd())]
        assert said[1:] == ["no end"]
        assert any(line.startswith(f"rank {rank} has joined") for line in lines)
        assert "noise" in (report.log_dir / f"worker_{rank}.log").read_text()
    assert (report.log_dir / "scheduler.log").read_text().count("no end") == 0


def test_the_rank_that_fails_first_is_blamed_and_its_traceback_shown_once(start, lines):
    report = start(
        "def inner():\n    raise ValueError('first')\n"
        "print('works')\n"
        "time.sleep(0.2 if rank == 1 else 0.8)\n"
        "inner() if rank == 1 else 1 / 0\n",
        workers=3,
    )
    assert not report.ok and report.exit_code == 1 and report.first == 1 and nothing_left(report)
    assert "rank 1 failed first" in report.headline() and "ValueError: first" in report.headline()
    assert "in inner" in report.evidence() and "worker.py" not in report.evidence() and "runpy" not in report.evidence()
    assert [rank.state for rank in report.ranks] == ["raised, after rank 1", "raised", "raised, after rank 1"]
    assert not [line for line in lines if "Traceback" in line] and "[rank 1] works" in lines
    assert "Traceback" in (report.log_dir / "worker_1.log").read_text()
    assert report.seconds < 20  # and none of msrun's half minutes


@pytest.mark.parametrize(
    ("how", "state"),
    [("sys.exit(3)", "exit code 3"), ("sys.exit(-1)", "exit code 255"),
     ("sys.exit('words')", "exit code 1"), ("os._exit(4)", "exit code 4"),
     ("os.kill(os.getpid(), 9)", "signal 9 (Killed): by the kernel for want of memory"),
     ("import atexit; atexit.register(os.abort); sys.exit()", "signal 6 (Aborted), after its script had ended well"),
     ("os.kill(os.getppid(), 9)", "killed, with the process that waited for it")],
)  # fmt: skip
def test_an_end_is_said_as_it_was(start, how, state):
    report = start(f"if rank == 1:\n    {how}\n    time.sleep(60)\ntime.sleep(60)\n")
    assert report.first == 1 and report.ranks[1].state.startswith(state), report.text()
    assert report.ranks[0].state == "ended, as rank 1 failed" and nothing_left(report)


def test_a_rank_may_leave_earlier_than_the_others(start):
    assert start("sys.exit(None) if rank else time.sleep(1)").ok


def test_a_hung_job_shows_where_each_rank_was(start):
    report = start("def waits():\n    time.sleep(60)\nwaits()\n", timeout=3)
    assert not report.ok and report.first is None and report.stopped == "the job did not end within 3 s"
    assert report.evidence().count("in waits") == 2 and "runpy" not in report.evidence() and nothing_left(report)


def test_a_rank_that_never_joins_is_named(start):
    text = "from mindspore.communication import init\nif rank == 0: init()\ntime.sleep(60)\n"
    report = start(text, join_timeout=4)
    assert report.stopped == "rank 1 did not call mindspore.communication.init() within 4 s" and not report.ok


def test_processes_of_a_rank_end_with_the_job(start):
    child = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True, env={}).pid)"
    report = start(f"{child}\nsys.exit(rank)\n")
    assert report.first == 1
    pids = [int(_text(report.log_dir / f"worker_{rank}.log").split()[0]) for rank in (0, 1)]
    assert not [pid for pid in pids if is_running(pid)]  # without the token: they are known by their parents


def test_a_scheduler_that_is_lost_ends_the_job(start):
    find = "[p for p in os.listdir('/proc') if p.isdigit() and b'MS_ROLE=MS_SCHED' in env(p) and token in env(p)]"
    text = (
        "def env(pid):\n    try: return open(f'/proc/{pid}/environ', 'rb').read()\n    except OSError: return b''\n"
        f"token = os.environ['{TOKEN}'].encode()\n"
        f"time.sleep(1)\nfor pid in {find}: os.kill(int(pid), 9)\ntime.sleep(60)\n"
    )
    report = start(text)
    assert not report.ok and report.stopped.startswith("MindSpore's scheduler ended") and report.seconds < 30


def test_a_port_that_is_taken_meanwhile_costs_another_attempt_only(start, tmp_path, lines, monkeypatch):
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(job, "claim", lambda folder: folder)
    (tmp_path / "logs" / "taken-once").touch()
    text = "from mindspore.communication import init\ninit(); time.sleep(0.5)\n"
    assert start(text).ok
    assert any("taken the scheduler's port" in line for line in lines)


def test_a_port_that_is_always_taken_is_refused(start, tmp_path, monkeypatch):
    monkeypatch.setattr(job, "PORTS", 1)
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(job, "claim", lambda folder: folder)
    (tmp_path / "logs" / "taken-once").touch()
    with pytest.raises(BackendError, match="port is taken"):
        start("time.sleep(60)")


def test_what_cannot_be_launched_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(UsageError, match="no such script"):
        launch(tmp_path / "absent.py", workers=2, log_dir=tmp_path / "logs")
    with pytest.raises(UsageError, match="workers"):
        call("a:b", workers=0, log_dir=tmp_path / "logs")
    with pytest.raises(UsageError, match="no function"):
        call("no function", workers=1)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("fork", "device", "forked"), [(True, "CPU", True), (True, "Ascend", False), (False, "CPU", False)]
)
def test_a_call_answers_with_what_each_rank_returned(tmp_path, fork, device, forked):
    arguments, said = {"dp": 2.5, "words": ["a", "é"]}, []
    answers = call("tests.parallel.launch.jobs:echo", arguments, workers=2, log_dir=tmp_path / "logs", fork=fork,
                   environ={**ENVIRON, "STAND_IN_DEVICE": device}, say=said.append)  # fmt: skip
    assert said[0] == f"2 ranks, logs in {tmp_path / 'logs'}"
    assert [(answer["rank"], answer["got"], answer["forked"]) for answer in answers] == [
        (rank, arguments, forked) for rank in (0, 1)
    ]
    assert answers[0]["draw"] != answers[1]["draw"]  # a fork would have both draw the same
    assert with_token(TOKEN, str(tmp_path / "logs")) == []


@pytest.mark.parametrize(
    ("kind", "raised", "words"),
    [
        ("refuse", UsageError, "a rank's refusal"),
        ("break", LaunchFailed, "in echo"),
        ("unsayable", LaunchFailed, "JSON"),
    ],
)
def test_a_call_raises_what_the_rank_refused_or_that_it_failed(tmp_path, kind, raised, words):
    with pytest.raises(raised, match=words) as caught:
        call("tests.parallel.launch.jobs:echo", {"kind": kind}, workers=1, log_dir=tmp_path / "logs", environ=ENVIRON,
             say=lambda line: None)  # fmt: skip
    assert caught.value.exit_code == (2 if raised is UsageError else 1)
    if raised is UsageError:
        assert caught.value.got == "3" and caught.value.do == "try 4"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, -1)]
)
def test_nothing_is_left_when_the_launcher_is_ended(tmp_path, number, code):
    script, logs = tmp_path / "job.py", tmp_path / "logs"
    script.write_text(
        "import os, signal, subprocess, time\n"
        "subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('asked to end', flush=True), os._exit(0)))\n"
        "print('up', flush=True); time.sleep(60)\n"
    )
    words = [f"--env={name}={value}" for name, value in ENVIRON.items()]
    command = [
        sys.executable,
        "-m",
        "mindport",
        "launch",
        "--workers",
        "2",
        "--log-dir",
        str(logs),
        *words,
        str(script),
    ]
    launcher = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _until(lambda: all(_text(logs / f"worker_{rank}.log") == "up\n" for rank in (0, 1)))
    assert len(with_token(TOKEN, str(logs))) >= 8  # keeper, msrun, scheduler, two of each rank, two sleepers
    launcher.send_signal(number)
    assert launcher.wait(30) == code
    _until(lambda: not with_token(TOKEN, str(logs)))
    asked = _text(logs / "worker_0.log") == "up\nasked to end\n"
    assert asked == (code in (143, 130))  # a launcher that can still speak lets the ranks write what they have


def _until(holds, seconds: float = 30) -> None:
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.05)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_crash_is_shown_where_it_was(start):
    report = start("def inner():\n    import ctypes; ctypes.string_at(0)\nprint('works')\ninner()\n", workers=1)
    assert report.ranks[0].state.startswith("signal 11") and report.ranks[0].last == "works"
    assert "Segmentation fault" in report.evidence() and "in inner" in report.evidence()
    assert "worker.py" not in report.evidence() and "runpy" not in report.evidence()


def test_what_is_no_python_is_told_by_its_error(start):
    report = start("def f(:\n", workers=1)
    assert "SyntaxError: invalid syntax" in report.headline() and "job.py, line 3" in report.headline()
    assert "def f(:" in report.evidence() and "worker.py" not in report.evidence()


def test_a_script_may_close_its_streams(start):
    assert start("sys.stdout.close(); sys.stderr.close(); [os.close(n) for n in range(3)]\n", workers=1).ok
