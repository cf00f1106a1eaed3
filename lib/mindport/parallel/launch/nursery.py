"""Ranks that need not import MindSpore again: the process that becomes msrun's parent has, and forks them.

msrun imports MindSpore before it starts anything, and each of its processes once more: more than a second of a core
for each rank. Here one process imports it, forks msrun, and then a process for each that msrun starts (`worker.py`),
which asks for it through a socket and waits. Only where the CPU computes, and importing has started no thread, which a
fork would lose.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from mindport.parallel.launch import worker
from mindport.parallel.launch.environ import NURSERY
from mindport.process_table import die_with, has_ended

MESSAGE = 1 << 20  # bytes of an environment
LOOKS = 0.1  # seconds between two looks at msrun


def main(options: Sequence[str]) -> NoReturn:
    """Be msrun, or its parent where ranks can be forked."""
    import mindspore
    from mindspore.parallel.cluster.run import main as msrun

    sys.argv[:] = ["msrun", *options]
    if mindspore.get_context("device_target") != "CPU" or not _can_fork():
        msrun()
        sys.exit()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        os.environ[NURSERY] = f"mindport-{secrets.token_hex(8)}"
        listener.bind("\0" + os.environ[NURSERY])  # a name that vanishes with the process, and is no file
        listener.listen(1024)
        own = os.getpid()
        if not (pid := os.fork()):
            listener.close()
            die_with(own)
            msrun()
            sys.exit()
        _serve(listener, pid)
    sys.exit()


def _can_fork() -> bool:
    """Whether this process has one thread, and the kernel lets it watch a child and a socket at once (Linux 5.3)."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return len(list(Path("/proc/self/task").iterdir())) == 1


def ask() -> socket.socket | None:
    """In what msrun has started: have a process forked that does it instead; None where there is nobody to ask."""
    if NURSERY not in os.environ:
        return None
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        channel.connect("\0" + os.environ[NURSERY])
        socket.send_fds(channel, [json.dumps(dict(os.environ)).encode()], [0, 1, 2])
    except OSError:
        channel.close()
        return None
    return channel


def _serve(listener: socket.socket, msrun: int) -> None:
    """Fork for whoever asks, until msrun has ended."""
    own = os.getpid()
    while not has_ended(msrun):
        if not select.select([listener], [], [], LOOKS)[0]:
            continue
        channel, _ = listener.accept()
        with channel:
            message, streams, *_ = socket.recv_fds(channel, MESSAGE, 3) if is_ours(channel) else (b"", [])
            if message and not os.fork():
                listener.close()
                _be(json.loads(message), streams, own, channel)
            for stream in streams:
                os.close(stream)


def is_ours(channel: socket.socket) -> bool:
    """Whether a process of this user is at the other end: anybody on the machine can find the socket."""
    credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1] == os.geteuid()


def _be(environ: dict[str, str], streams: Sequence[int], parent: int, channel: socket.socket) -> NoReturn:
    """The process that msrun started, as far as the user can tell."""
    import numpy as np

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.setsid()
    os.environ.clear()
    os.environ.update(environ)
    np.random.seed()  # or all ranks would draw the same, who would not had each imported it
    worker.attend(parent, channel)
