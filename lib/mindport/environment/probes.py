"""Probes do the thing instead of reading its version: each is a small program in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mindport.environment.check import Check, State
from mindport.environment.faults import planted
from mindport.environment.packages import install_command
from mindport.errors import UsageError

GROUP = "probes"
SCRIPTS = Path(__file__).parent / "scripts"
TIMEOUT = 120.0  # seconds
AT_ONCE = 2  # processes
_RAISED = re.compile(r"[A-Za-z_.]*(Error|Exception|Interrupt)\b")


@dataclass(frozen=True)
class Probe:
    """A program of `scripts/`, what it should find, and what to do if it does not.

    `optional` is a module whose absence is a warning (the probe cannot be run) and not an error.
    """

    name: str
    script: str
    expected: str
    do: str
    arguments: tuple[str, ...] = ()
    optional: str = ""

    def row(self, state: State, found: str, seconds: float, do: str = "") -> Check:
        """The answer as a check."""
        return Check(self.name, GROUP, state, found, self.expected, do, seconds)


_REINSTALL = "pip install --force-reinstall 'mindspore==2.10.*' 'numpy<2', in a fresh environment"
_APART = "first what the rows above ask for; then keep the two in processes of their own, as step 03 does"

PROBES = (
    Probe("NumPy and MindSpore", "numpy_abi", "the first operations of a process are right", "pip install 'numpy<2'"),
    Probe(
        "safetensors, transposed",
        "safetensors_transposed",
        "read back as written",
        "pip install 'safetensors<0.8', and write again every file that this version made",
    ),
    Probe(
        "bfloat16",
        "bf16_round_trip",
        "equal bit for bit in a file and in a tensor",
        "pip install 'numpy<2' 'ml_dtypes>=0.5'",
    ),
    Probe(
        "default mode",
        "default_mode",
        "PyNative, whatever an article says",
        "set the mode yourself at the start: ms.set_context(mode=ms.PYNATIVE_MODE)",
    ),
    Probe("training step", "training_step", "PyNative and Graph equal the step written in NumPy", _REINSTALL),
    Probe(
        "torch before mindspore",
        "import_order",
        "both work in one process",
        _APART,
        ("torch", "mindspore"),
        optional="torch",
    ),
    Probe(
        "mindspore before torch",
        "import_order",
        "both work in one process",
        _APART,
        ("mindspore", "torch"),
        optional="torch",
    ),
    Probe("run_check", "self_test", "says `successfully` and names the platform", _REINSTALL),
    Probe(
        "fused attention",
        "fused_attention",
        "a finite output, or an honest `unregistered`",
        "use the plain attention, and report the message with the versions above",
    ),
)


def probe_names() -> tuple[str, ...]:
    """The names that `run_probe` takes."""
    return tuple(probe.name for probe in PROBES)


def program(name: str) -> str:
    """The source of a probe, as it is run."""
    return (SCRIPTS / f"{_probe(name).script}.py").read_text(encoding="utf-8")


def run_probes(probes: Sequence[Probe] = PROBES) -> tuple[Check, ...]:
    """Run the probes, two at a time; the rows keep the order of `probes`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return tuple(pool.map(run, probes))


def run_probe(name: str, *, fault: str | None = None) -> Check:
    """Run one probe by name, with one of the planted `faults.FAULTS` if that is wanted.

    Raises:
        UsageError: there is no probe, or no fault, of that name.
    """
    probe = _probe(name)
    with planted(fault) if fault else contextlib.nullcontext() as shadow:
        return run(probe, shadow=shadow)


def _probe(name: str) -> Probe:
    for probe in PROBES:
        if probe.name == name:
            return probe
    raise UsageError("there is no such probe", got=name, expected=", ".join(probe_names()))


def run(probe: Probe, *, shadow: Path | None = None, timeout: float = TIMEOUT) -> Check:
    """Run a probe in a fresh interpreter and read its answer; whatever happens there becomes a row.

    Args:
        probe: what to run.
        shadow: a folder whose packages are found before the installed ones.
        timeout: seconds after which the process is ended.
    """
    command = [sys.executable, *_flags(), str(SCRIPTS / f"{probe.script}.py"), *probe.arguments]
    options = {"capture_output": True, "text": True, "errors": "replace", "stdin": subprocess.DEVNULL}
    start = time.perf_counter()
    try:
        done = subprocess.run(command, timeout=timeout, env=_environment(shadow), **options)  # type: ignore[call-overload]
    except subprocess.TimeoutExpired:
        do = f"is the machine busy, or out of memory? By hand: {' '.join(command)}"
        return probe.row("error", f"no answer within {timeout:g} s", timeout, do)
    return _judge(probe, done, round(time.perf_counter() - start, 2))


def _judge(probe: Probe, done: subprocess.CompletedProcess[str], seconds: float) -> Check:
    if done.returncode:
        return _judge_failure(probe, done, seconds)
    if (answer := _answer(done.stdout)) is None:
        return probe.row("error", "the program ended without an answer", seconds, probe.do)
    ok, found = answer
    return probe.row("pass", found, seconds) if ok else probe.row("error", found, seconds, probe.do)


def _judge_failure(probe: Probe, done: subprocess.CompletedProcess[str], seconds: float) -> Check:
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if module := _missing(lines):
        state: State = "warning" if module == probe.optional else "error"
        return probe.row(state, f"not run: {module} is not installed", seconds, install_command(module))
    raised = [line for line in lines if _RAISED.match(line)]  # MindSpore prints its C++ stack after the message
    how = f"ended by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return probe.row("error", raised[-1] if raised else " | ".join([how, *lines[-2:]]), seconds, probe.do)


def _answer(stdout: str) -> tuple[bool, str] | None:
    """`ok` and `found` of the last line that is a JSON answer; frameworks may print around it."""
    for line in reversed(stdout.splitlines()):
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict) and {"ok", "found"} <= answer.keys():
            return bool(answer["ok"]), str(answer["found"])
    return None


def _missing(lines: Sequence[str]) -> str:
    """The top-level module that could not be found, if that is what stopped the script."""
    _, found, rest = (lines or [""])[-1].partition("ModuleNotFoundError: No module named '")
    return rest.split("'")[0].split(".")[0] if found else ""


def _flags() -> list[str]:
    """The isolation this interpreter was started with, so that a probe sees the packages that it sees."""
    flags = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-S": sys.flags.no_site}
    return [flag for flag, on in flags.items() if on]


def _environment(shadow: Path | None) -> dict[str, str]:
    environ = {"OMP_NUM_THREADS": "1", "GLOG_v": "3", **os.environ}
    if shadow is not None:
        environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(shadow), environ.get("PYTHONPATH", "")]))
    return environ
