"""Processes that need not import a framework again: one that has done so forks them, each with a state of its own.

Importing torch and a class of transformers takes seconds of a processor, MindSpore two; a fork takes milliseconds. A
fork server is started with the first process that asks for it and ends with the process that asked. It forks only while
it has one thread, as frameworks have that were imported and not yet used; where one starts threads as it is imported,
and on systems where a fork is no way to start a process, there is an ordinary process instead.

(multiprocessing's forkserver preloads as well, but its processes share one environment, one folder and one stderr, and
run a function of the caller's: these are commands, whose last line on stderr is quoted.)
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

CODE = "import sys; from mindport.fork_server import serve; serve(*sys.argv[1:])"
MESSAGE = 1 << 20  # bytes
NOBODY = -1  # the fork server was ended before it forked
READY, UNFIT = b"ready", b"unfit"
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}  # or NumPy starts threads as it is imported
PASSING = ("PYTEST_CURRENT_TEST", "PWD", "OLDPWD", "_")  # variables that say where we are, and change no import


class Child:
    """A process of a fork server; what `subprocess.Popen` has, as far as it is needed."""

    def __init__(self, status: socket.socket) -> None:
        self._status, self._waits = status, threading.Lock()
        self.pid = int(status.recv(MESSAGE) or NOBODY)
        self.returncode: int | None = -signal.SIGKILL if self.pid == NOBODY else None

    def wait(self) -> int:
        """Its exit code, negative where a signal ended it, when it has ended."""
        with self._waits:
            if self.returncode is None:
                self.returncode = int(self._status.recv(MESSAGE) or -signal.SIGKILL)  # its keeper was ended
                self._status.close()
        return self.returncode

    def kill(self) -> None:
        """End it."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and nobody has asked yet
                os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """The process that forks.

    Args:
        modules: that it imports.
        environ: its variables.
    """

    def __init__(self, modules: Sequence[str], environ: Mapping[str, str]) -> None:
        self.channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self.process = subprocess.Popen(
                [sys.executable, "-c", CODE, str(other.fileno()), *modules], pass_fds=[other.fileno()], cwd="/",
                env={**environ, **ONE_THREAD}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
        self.fit = self.channel.recv(MESSAGE) == READY

    def fork(self, order: Mapping[str, Any], streams: Sequence[int]) -> Child:
        """A process with these three streams that follows the order, see `_follow`."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self.channel, [json.dumps(order).encode()], [*streams, theirs.fileno()])
        return Child(ours)


_SERVERS: dict[tuple[int, tuple[str, ...], str], ForkServer] = {}
_STARTS = threading.Lock()


def start(
    module: str, arguments: Sequence[str], modules: Sequence[str], *, environ: Mapping[str, str],
    folder: Path | None = None, stdin: int | IO[Any] = subprocess.DEVNULL, stdout: int | IO[Any] = subprocess.DEVNULL,
    stderr: int | IO[Any] = subprocess.DEVNULL,
) -> Child | subprocess.Popen[bytes]:  # fmt: skip
    """Call `main` of a module in a process of its own.

    Args:
        module: with a function `main` that takes the arguments as a list and returns the exit code.
        arguments: of the command line.
        modules: what the fork server imports first; without any it is an ordinary process.
        environ: all variables of the process.
        folder: where it runs.
        stdin, stdout, stderr: files or their numbers, which the caller closes; `subprocess.DEVNULL`.
    """
    server = _server(tuple(modules), environ) if modules else None
    if server is None:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], env=dict(environ), cwd=folder,
                                stdin=stdin, stdout=stdout, stderr=stderr)  # fmt: skip
    order = {"module": module, "arguments": list(arguments), "environ": dict(environ),
             "folder": str(folder or Path.cwd())}  # fmt: skip
    with open(os.devnull, "r+b") as nothing:
        given = (nothing if stream == subprocess.DEVNULL else stream for stream in (stdin, stdout, stderr))
        return server.fork(order, [each if isinstance(each, int) else each.fileno() for each in given])


def _server(modules: tuple[str, ...], environ: Mapping[str, str]) -> ForkServer | None:
    """The one that has imported these modules under these variables; None where none can be."""
    if sys.platform != "linux":
        return None
    told = json.dumps({name: value for name, value in environ.items() if name not in PASSING}, sort_keys=True)
    key = (os.getpid(), modules, told)  # the children of a fork of ours are not those of this process
    with _STARTS:
        if key not in _SERVERS or _SERVERS[key].process.poll() is not None:
            _SERVERS[key] = ForkServer(modules, environ)
    return _SERVERS[key] if _SERVERS[key].fit else None


def serve(channel: str, *modules: str) -> None:
    """The other end: import, then fork until nobody is there to ask."""
    with socket.socket(fileno=int(channel)) as orders:
        fit = _import(modules) and len(list(Path("/proc/self/task").iterdir())) == 1
        orders.send(READY if fit else UNFIT)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a keeper ended
        while fit:
            message, streams, *_ = socket.recv_fds(orders, MESSAGE, 4)
            if not message:
                return
            if not os.fork():
                orders.close()
                _keep(json.loads(message), streams)
            for stream in streams:
                os.close(stream)


def _import(modules: Sequence[str]) -> bool:
    try:
        for module in modules:
            importlib.import_module(module)
    except Exception:  # the ordinary process that takes its place says it
        return False
    return True


def _keep(order: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    """Fork the process itself, and tell its number and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *own, told = streams
    with socket.socket(fileno=told) as status:
        if not (pid := os.fork()):
            status.close()
            _follow(order, own)
        with contextlib.suppress(OSError):  # the one who asked has ended
            status.send(str(pid).encode())
            _, ended = os.waitpid(pid, 0)
            status.send(str(os.waitstatus_to_exitcode(ended)).encode())
    os._exit(0)


def _follow(order: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    """Be the process that was asked for; it ends here, without what the fork server would do at its own end."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(order["environ"])
    code = 1
    try:
        os.chdir(order["folder"])
        code = int(importlib.import_module(order["module"]).main(order["arguments"]) or 0)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
