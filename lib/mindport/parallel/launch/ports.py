"""A port for the scheduler of a job that no other job of this user takes.

Between the moment in which a port is found free and the one in which the scheduler binds it seconds pass, in which
MindSpore is imported. A file is locked as long as a job has the port, so that launches at the same moment get different
ones; and ports are taken from below those that the system gives to outgoing connections.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mindport.errors import BackendError

FIRST, LAST = 20000, 32000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Lease:
    """A port, and the descriptor of the locked file; a process that inherits this keeps the lease."""

    port: int
    descriptor: int


def port_range() -> range:
    """Ports below those of outgoing connections; the usual ones where the system has moved those down."""
    try:
        lowest = int(EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        lowest = LAST
    return range(FIRST, min(LAST, lowest) if lowest > FIRST + 100 else LAST)


@contextlib.contextmanager
def lease() -> Iterator[Lease]:
    """Hold a free port for the time of the block.

    Raises:
        BackendError: none is free.
    """
    folder = Path(tempfile.gettempdir()) / f"mindport-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    ports = port_range()
    for port in random.sample(ports, len(ports)):
        descriptor = os.open(folder / str(port), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if _locks(descriptor) and is_free(port):
                yield Lease(port, descriptor)
                return
        finally:
            os.close(descriptor)
    raise BackendError("no port is free for the scheduler", got=f"{ports.start} to {ports.stop - 1}",
                       do="end what holds them")  # fmt: skip


def is_free(port: int) -> bool:
    """Whether nobody listens there, on this host's own address or on all."""
    for host in (HOST, ""):
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the scheduler does
            try:
                sock.bind((host, port))
            except OSError:
                return False
    return True


def _locks(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this disk knows no locks: the port is tried all the same
        return True
    return True
