"""The C++ kernels as a shared library, compiled once on this machine.

    the sources in cpp/  +  the compiler  +  this CPU   →   one file in the user's cache, named after all three

The compiler is the one that the doctor finds: `$CXX`, else a usual name on the PATH. A library is compiled aside
under a lock and then renamed, so processes that start together compile it once, and one that is killed leaves nothing
that loads. It ends with its own digest: a file that was damaged since, which would end the process that loads it, or
that another user has put there, is compiled again.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mindport.environment.system import COMPILERS, find_compiler
from mindport.errors import BackendError, FileError, MindPortError
from mindport.files import atomic_file
from mindport.sources import cache_directory

SOURCES = Path(__file__).parent / "cpp"
# no -ffast-math: it would take NaN and infinity for impossible, and set the whole process to flush denormals
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
         "-fopenmp", "-fPIC", "-shared")  # fmt: skip
TIMEOUT = 300
DIGEST = 32  # bytes after the end of the library, which no loader reads


@functools.cache
def library() -> Path:
    """The compiled library of this machine; compiled now when it is not in the cache.

    Raises:
        BackendError: there is no compiler, it refuses the sources, or what it makes does not load.
        FileError: the cache cannot be written, or nothing can be loaded from it.
    """
    command = _compiler()
    target = cache_directory() / "kernels" / f"kernels-{_key(command)}.so"
    if not _is_whole(target):
        with _locked(target.with_suffix(".lock")):
            if not _is_whole(target):  # another process may have been first
                _compile(command, target)
    _check_place(target)
    return target


@functools.cache
def unavailable() -> str | None:
    """Why there is no library here, in one line; None when there is one."""
    try:
        library()
    except MindPortError as error:
        return error.what if error.got is None else f"{error.what} ({error.got})"
    return None


def _compiler() -> list[str]:
    command = find_compiler(os.environ)
    if not command:
        raise BackendError("the C++ kernels need a compiler, and there is none", where="PATH",
                           got=f"no {os.environ.get('CXX') or ', '.join(COMPILERS)}",
                           do="install g++ (Debian: apt-get install g++), or go on with plain operators")  # fmt: skip
    return command


def _key(command: list[str]) -> str:
    """Sixteen hexadecimal digits over all that decides what the library is."""
    digest = hashlib.sha256(" ".join((*command, *FLAGS)).encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    digest.update(_run([*command, "--version"]).encode() + _cpu().encode())
    return digest.hexdigest()[:16]


def _cpu() -> str:
    """What the CPU can do, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    return platform.machine() + next((line for line in lines if line.lower().startswith(("flags", "features"))), "")


def _is_whole(library: Path) -> bool:
    """Whether it is there, from somebody who is trusted, and as it was when it was compiled."""
    if not library.is_file() or library.stat().st_uid not in _trusted():
        return False
    content = library.read_bytes()
    return content[-DIGEST:] == hashlib.sha256(content[:-DIGEST]).digest()


def _trusted() -> set[int]:
    """Whose code is run: this user's and root's, as the cache may lie where others can write."""
    return {os.geteuid(), 0}


def _compile(command: list[str], target: Path) -> None:
    _check_place(target)
    sources = sorted(map(str, SOURCES.glob("*.cc")))
    with atomic_file(target) as aside:
        _run([*command, *FLAGS, *sources, "-o", str(aside)])
        digest = hashlib.sha256(aside.read_bytes()).digest()
        with aside.open("ab") as file:
            file.write(digest)
        _load(aside, command[0])


def _load(library: Path, compiler: str) -> None:
    """Load it once, before it is kept: MindSpore would only find out when a model runs."""
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        raise BackendError("what the C++ compiler makes does not load", where=compiler, got=error,
                           do="set CXX to another compiler, or go on with plain operators") from None  # fmt: skip


def _check_place(target: Path) -> None:
    """Refuse a path that MindSpore takes apart, and a disk from which nothing can be run."""
    if ":" in str(target):
        raise FileError("MindSpore loads no library from a path with a colon", where=target,
                        do="name another place in MINDPORT_CACHE")  # fmt: skip
    if os.statvfs(target.parent).f_flag & getattr(os, "ST_NOEXEC", 0):
        raise FileError("the cache of compiled kernels is on a disk that is mounted noexec", where=target.parent,
                        do="name another place in MINDPORT_CACHE")  # fmt: skip


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT,
                              check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError("the C++ compiler does not run", where=command[0], got=error) from None
    if done.returncode:
        raise BackendError("the C++ compiler refuses the kernels", where=command[0], got=_reason(done),
                           do="set CXX to another compiler, or go on with plain operators")  # fmt: skip
    return done.stdout


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of what went wrong; of a full disk the linker says "failed", and the compiler "error" after it."""
    lines = done.stderr.splitlines()
    causes = [line for line in lines if "error" in line or "failed" in line]
    return (causes or lines or [f"exit code {done.returncode}"])[0]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; a process that dies lets go of it."""
    import fcntl  # POSIX only, like the compilers that are looked for

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a")  # in a place that others can write to, it may be a link to a file that has content
        fcntl.flock(file, fcntl.LOCK_EX)  # which some network file systems refuse
    except OSError as error:
        raise FileError("the cache of compiled kernels cannot be written", where=path.parent, got=error.strerror,
                        do="name another place in MINDPORT_CACHE") from None  # fmt: skip
    with file:
        yield
