"""The machine under the packages: Python, platform, disk, memory, compiler, and whose packages are seen."""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from mindport.environment.check import Check

GROUP = "system"
PYTHONS = ((3, 10), (3, 11), (3, 12))  # MindSpore 2.10 has wheels for these
GIB = 2**30
DISK = (1 * GIB, 5 * GIB)  # error below, warning below: SmolLM2-135M as GGUF, float32, converted, and its traces
MEMORY = (2 * GIB, 6 * GIB)  # error below, warning below: the default run stays under 6 GiB
COMPILERS = ("g++", "c++", "clang++")
PROGRAM = "#include <omp.h>\nint main() { return omp_get_max_threads() > 0 ? 0 : 1; }\n"


def check_system() -> tuple[Check, ...]:
    """All of this page, for this process."""
    return (
        check_python(sys.version_info[:3]),
        check_platform(platform.system(), platform.machine()),
        check_isolation(sys.prefix, sys.base_prefix, os.environ),
        check_search_path(sys.path, "mindspore"),
        check_space("disk", shutil.disk_usage(".").free, DISK, "free space, or start from another directory"),
        check_space("memory", available_memory(), MEMORY, "close other programs, or stay at size smoke"),
        check_compiler(find_compiler(os.environ)),
    )


def check_python(version: Sequence[int]) -> Check:
    """The interpreter's version against the wheels that exist."""
    found, expected = ".".join(map(str, version)), "3.10, 3.11 or 3.12"
    if tuple(version[:2]) in PYTHONS:
        return Check("Python", GROUP, "pass", found, expected)
    do = "make the environment again with one of these: python3.11 -m venv .venv"
    return Check("Python", GROUP, "error", found, expected, do)


def check_platform(system: str, machine: str) -> Check:
    """Operating system and processor; MindPort itself was run on Linux, x86_64."""
    found, expected = f"{system} {machine}", "Linux x86_64 (tested) or aarch64"
    if system == "Linux" and machine in ("x86_64", "aarch64"):
        return Check("platform", GROUP, "pass", found, expected)
    do = "go on and trust the probes below, or use Linux (a container is enough)"
    return Check("platform", GROUP, "warning", found, expected, do)


def check_isolation(prefix: str, base_prefix: str, environ: Mapping[str, str]) -> Check:
    """Whether the packages live in a virtual or conda environment of their own."""
    expected = "a venv or conda environment"
    if prefix != base_prefix:
        return Check("isolation", GROUP, "pass", f"venv {prefix}", expected)
    if environ.get("CONDA_PREFIX") == prefix and environ.get("CONDA_DEFAULT_ENV") != "base":
        return Check("isolation", GROUP, "pass", f"conda environment {prefix}", expected)
    do = "python -m venv .venv, or conda env create -f environment.yml; then start Jupyter from it"
    return Check("isolation", GROUP, "warning", f"the packages of the system's Python ({prefix})", expected, do)


def check_search_path(path: Sequence[str], package: str) -> Check:
    """Whether `package` would be found in more than one place; the first wins, whatever pip says."""
    places = list(dict.fromkeys(str(Path(entry or ".").resolve()) for entry in path))
    found = [place for place in places if _holds(Path(place), package)]
    name, expected = f"one {package} on sys.path", "one place, or none yet"
    if len(found) < 2:
        return Check(name, GROUP, "pass", found[0] if found else "none", expected)
    do = f"unset PYTHONPATH, and rename or leave the folder that shadows the installed {package}"
    return Check(name, GROUP, "error", " before ".join(found), expected, do)


def _holds(place: Path, package: str) -> bool:
    return (place / package / "__init__.py").is_file() or (place / f"{package}.py").is_file()


def check_space(name: str, free: int | None, limits: tuple[int, int], do: str) -> Check:
    """Free bytes against two limits: an error below the first, a warning below the second."""
    expected = f"{limits[1] / GIB:.0f} GiB"
    if free is None:
        return Check(name, GROUP, "warning", "cannot be read on this system", expected, f"make sure of {expected}")
    found = f"{free / GIB:.1f} GiB free"
    if free >= limits[1]:
        return Check(name, GROUP, "pass", found, expected)
    return Check(name, GROUP, "error" if free < limits[0] else "warning", found, expected, do)


def available_memory(
    proc: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup/memory.max")
) -> int | None:
    """Bytes that a new process may use: what Linux says is available, within the container's limit."""
    try:
        kib = re.search(r"^MemAvailable:\s+(\d+) kB", proc.read_text(), re.MULTILINE)
    except OSError:
        return None
    available = int(kib.group(1)) * 1024 if kib else None
    try:
        limit = cgroup.read_text().strip()
    except OSError:
        return available
    return min(available, int(limit)) if available is not None and limit.isdigit() else available


def find_compiler(environ: Mapping[str, str]) -> list[str]:
    """The C++ compiler's command, empty when there is none: `$CXX` with its options, else a usual name on PATH.

    No other is taken for a CXX that is not there: a user who names a compiler wants that one.
    """
    named = _words(environ.get("CXX", ""))
    commands = [named] if named else [[name] for name in COMPILERS]
    return next((command for command in commands if shutil.which(command[0], path=environ.get("PATH"))), [])


def _words(command: str) -> list[str]:
    """As a shell would split it; with a quotation mark that is never closed, the whole as one name."""
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def check_compiler(command: Sequence[str]) -> Check:
    """Compile a one-line OpenMP program and run it; MindPort's CPU kernels are built that way."""
    name, expected = "C++ compiler", "compiles and runs a program with -fopenmp"
    do = "install g++ (Debian: apt-get install g++; conda: conda install gxx); without it the plain operators are used"
    if not command:
        found = f"CXX is {os.environ['CXX']}, which is not there" if os.environ.get("CXX") else "none found"
        return Check(name, GROUP, "warning", found, expected, do)
    failure = _compile_and_run(command)
    if failure:
        return Check(name, GROUP, "warning", f"{shlex.join(command)}: {failure}", expected, do)
    return Check(name, GROUP, "pass", shlex.join(command), expected)


def _compile_and_run(compiler: Sequence[str]) -> str:
    """The last line of what went wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="mindport-") as folder:
        source, program = Path(folder, "probe.cc"), Path(folder, "probe")
        source.write_text(PROGRAM)
        for command in ([*compiler, "-fopenmp", str(source), "-o", str(program)], [str(program)]):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            except (OSError, subprocess.TimeoutExpired) as error:
                return str(error)
            if done.returncode:
                return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return ""
