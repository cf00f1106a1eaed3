"""Forked processes are like started ones: state, streams, folder and variables of their own, and an honest end."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from mindport import fork_server
from mindport.fork_server import Child, start
from mindport.processes import environment

MODULE = """
import json, os, sys, time
STATE = []

def main(words):
    word, STATE[:] = words[0], [*STATE, words[0]]
    if word == "tell":
        print(json.dumps([STATE, os.getcwd(), os.environ.get("ASKED"), sys.stdin.read(), "mailbox" in sys.modules]))
        print("aside", file=sys.stderr)
    elif word == "sleep":
        time.sleep(600)
    elif word == "kill":
        os.kill(os.getpid(), 9)
    elif word == "exit":
        sys.exit(words[1] if len(words) > 1 else 3)  # a text, or a number
    elif word == "raise":
        raise ValueError("in words")
"""


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    folder = tmp_path_factory.mktemp("module")
    (folder / "followed.py").write_text(MODULE)
    own = environment()
    return own | {"PYTHONPATH": os.pathsep.join([str(folder), own["PYTHONPATH"]])}


def end(environ, *words, modules=("mailbox", "followed"), **options):
    return start("followed", words, modules, environ=environ, **options).wait()


def test_a_process_has_its_own_state_streams_folder_and_variables(environ, tmp_path):
    (tmp_path / "in").write_text("asked\n")
    out, err = tmp_path / "out", tmp_path / "err"
    for asked in ("once", "again"):
        with (tmp_path / "in").open() as stdin, out.open("w") as stdout, err.open("w") as stderr:
            child = start("followed", ["tell"], ["mailbox", "followed"], environ=environ, folder=tmp_path, stdin=stdin,
                          stdout=stdout, stderr=stderr)  # fmt: skip
        assert isinstance(child, Child) and child.wait() == child.returncode == 0
        assert out.read_text() == f'[["tell"], "{tmp_path}", null, "asked\\n", true]\n', asked
        assert err.read_text() == "aside\n"


def test_other_variables_are_another_server_and_a_test_is_none(environ):
    count = len(fork_server._SERVERS)
    assert end(environ | {"PYTEST_CURRENT_TEST": "another"}, "nothing") == 0
    assert len(fork_server._SERVERS) == count
    assert end(environ | {"ASKED": "yes"}, "nothing") == 0
    assert len(fork_server._SERVERS) == count + 1


def test_every_end_is_told(environ, tmp_path):
    with (tmp_path / "err").open("w") as err:
        assert end(environ, "nothing") == 0
        assert end(environ, "exit") == 3
        assert end(environ, "exit", "a reason", stderr=err) == 1
        assert end(environ, "kill") == -9
        assert end(environ, "raise", stderr=err) == 1
    said = (tmp_path / "err").read_text()
    assert said.startswith("a reason\n") and said.endswith("ValueError: in words\n")


def test_one_that_does_not_end_is_ended(environ):
    child = start("followed", ["sleep"], ["followed"], environ=environ)
    time.sleep(0.1)
    child.kill()
    assert child.wait() == -9
    child.kill()  # which nobody minds


def test_without_a_server_it_is_an_ordinary_process(environ, monkeypatch):
    for modules in ((), ("no_such_module",)):
        child = start("mindport", ["--version"], modules, environ=environ)
        assert isinstance(child, subprocess.Popen) and child.wait() == 0
    monkeypatch.setattr(sys, "platform", "another")
    assert isinstance(start("mindport", ["--version"], ["json"], environ=environ), subprocess.Popen)


def test_one_that_has_threads_does_not_fork(environ, tmp_path):
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    (tmp_path / "threaded.py").write_text(thread)
    path = os.pathsep.join([str(tmp_path), environ["PYTHONPATH"]])
    child = start("mindport", ["--version"], ["threaded"], environ=environ | {"PYTHONPATH": path})
    assert isinstance(child, subprocess.Popen) and child.wait() == 0


def test_a_server_that_was_ended_is_replaced(environ):
    assert end(environ, "nothing") == 0
    (made,) = [each for key, each in fork_server._SERVERS.items() if key[1] == ("mailbox", "followed")][:1]
    made.process.kill()
    made.process.wait()
    assert end(environ, "nothing") == 0


def test_it_ends_with_the_process_that_asked(environ):
    code = ("import os; from mindport import fork_server as n; "
            "n.start('followed', ['nothing'], ['followed'], environ=dict(os.environ)).wait(); "
            "print(*(made.process.pid for made in n._SERVERS.values()))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    for _ in range(600):
        try:
            os.kill(int(done.stdout), 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("it is still there")
