"""Which MindSpore, MindSpore Transformers, CANN, driver and Python were published as one combination."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from mindport.environment.check import Check
from mindport.environment.version_numbers import Version
from mindport.results import Result
from mindport.tables import Table

GROUP = "versions"
SOURCE = "VERSION_MAP.json and the READMEs inside the mindformers wheels; Python from the MindSpore wheels on PyPI"


@dataclass(frozen=True)
class Stack:
    """One published combination; `python` is None where PyPI has no wheel of that MindSpore."""

    mindformers: str
    mindspore: str
    cann: str
    driver: str
    python: str | None = None


STACKS = (
    Stack("1.2.0", "2.3.0", "8.0.RC2", "24.1.RC2"),
    Stack("1.3.0", "2.4.0", "8.0.RC3", "24.1.RC3"),
    Stack("1.3.2", "2.4.10", "8.0.0", "24.1.0"),
    Stack("1.5.0", "2.6.0", "8.1.RC1", "25.0.RC1"),
    Stack("1.6.0", "2.7.0", "8.2.RC1", "25.2.0", "3.10–3.11"),
    Stack("1.7.0", "2.7.1", "8.3.RC1", "25.3.RC1", "3.10–3.11"),
    Stack("1.8.0", "2.7.2", "8.5.0", "25.5.0", "3.10–3.12"),
    Stack("1.9.0", "2.9.0", "9.0.0", "26.0.RC1", "3.10–3.12"),
    Stack("2.0.0", "2.10.0", "9.1.0", "26.1.0", "3.10–3.12"),
    Stack("2.1.0", "2.11.0", "9.2.0", "26.2.RC1"),
)

# (mindspore, mindformers): not published as a pair, but seen to import and build networks together on a CPU.
SEEN_TO_WORK = {("2.10.0", "1.9.0"), ("2.10.0", "1.8.0")}

# Published, but pip cannot install it: a dependency of the wheel is not on PyPI.
NOT_INSTALLABLE = {"2.0.0": "hyper-parallel", "2.1.0": "hyper-parallel"}


@dataclass(frozen=True)
class Installed:
    """What is on this machine; None means not installed."""

    mindspore: str | None
    mindformers: str | None = None
    cann: str | None = None
    driver: str | None = None


def version_table() -> Table:
    """The published combinations as a table."""
    rows = [(s.mindspore, s.mindformers, s.cann, s.driver, s.python or "no wheel on PyPI") for s in STACKS]
    columns = ("MindSpore", "MindSpore Transformers", "CANN", "driver", "Python")
    return Table(f"Published combinations (source: {SOURCE})", columns, rows)


def package_version(name: str) -> str | None:
    """The installed version of a distribution, read without importing it; None when absent."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def installed_versions(environ: Mapping[str, str] = os.environ) -> Installed:
    """Read the four versions of this machine."""
    return Installed(
        package_version("mindspore"), package_version("mindformers"), cann_version(environ), driver_version()
    )


def cann_version(environ: Mapping[str, str] = os.environ) -> str | None:
    """The CANN toolkit's version, from its install record (`ASCEND_HOME_PATH` first, then the usual places)."""
    named = [environ[key] for key in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME") if environ.get(key)]
    usual = ["/usr/local/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest"]
    record = f"{platform.machine()}-linux/ascend_toolkit_install.info"
    return _version_in(Path(home) / name for home in [*named, *usual] for name in (record, "version.info"))


def driver_version(path: Path = Path("/usr/local/Ascend/driver/version.info")) -> str | None:
    """The NPU driver's version from its `version.info`; None when there is no driver."""
    return _version_in([path])


@dataclass(frozen=True)
class Judgement(Result):
    """A combination held to the published ones."""

    installed: Installed
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return not any(check.state == "error" for check in self.checks)

    def headline(self) -> str:
        refused = [
            f"{check.name}: {check.found}, not {check.expected}" for check in self.checks if check.state == "error"
        ]
        return "; ".join(refused) or "no part contradicts the published combination"

    def tables(self) -> tuple[Table, ...]:
        rows = [(check.state, check.name, check.found, check.expected, check.do) for check in self.checks]
        return (Table(GROUP, ("state", "check", "found", "expected", "what to do"), rows),)


def judge_combination(
    mindspore: str | None, mindformers: str | None = None, cann: str | None = None, driver: str | None = None
) -> Judgement:
    """Hold any combination to the published ones: `judge_combination("2.10.0", cann="9.1.0")`."""
    installed = Installed(mindspore, mindformers, cann, driver)
    return Judgement(installed, judge(installed))


def judge(installed: Installed) -> tuple[Check, ...]:
    """One row for each of the pair, CANN and driver."""
    stack = next((s for s in STACKS if _same(s.mindspore, installed.mindspore)), None)
    return (
        _judge_pair(installed, stack),
        _judge_cann(installed, stack.cann if stack else None),
        _judge_part("driver", installed.driver, stack.driver if stack else None),
    )


def _judge_pair(installed: Installed, stack: Stack | None) -> Check:
    name = "MindSpore ↔ MindSpore Transformers"
    if installed.mindspore is None:
        do = "pip install 'mindspore==2.10.*'"
        return Check(name, GROUP, "error", "MindSpore is not installed", "MindSpore 2.10", do)
    if stack is None:
        return Check(
            name,
            GROUP,
            "warning",
            f"MindSpore {installed.mindspore} is in no published row",
            "a row of the table below",
            "take a MindSpore from the version table",
        )
    if installed.mindformers is None:
        found = f"MindSpore {stack.mindspore}; MindSpore Transformers is not installed (optional)"
        return Check(name, GROUP, "pass", found, _paired(stack))
    found = f"MindSpore {installed.mindspore}, MindSpore Transformers {installed.mindformers}"
    if _same(stack.mindformers, installed.mindformers):
        return Check(name, GROUP, "pass", found, _paired(stack))
    return _unmatched(name, found, installed, stack)


def _unmatched(name: str, found: str, installed: Installed, stack: Stack) -> Check:
    do = f"in an environment of its own: pip install mindformers=={stack.mindformers}"
    if (stack.mindspore, installed.mindformers) in SEEN_TO_WORK:
        return Check(
            name,
            GROUP,
            "warning",
            f"{found}: not the published pair, seen to import together on a CPU",
            _paired(stack),
            f"use it for export checks on a CPU only; for a device, {do}",
        )
    return Check(name, GROUP, "error", f"{found}: not a published pair", _paired(stack), do)


def _paired(stack: Stack) -> str:
    missing = NOT_INSTALLABLE.get(stack.mindformers)
    note = f" (not installable from PyPI alone: {missing} is missing there)" if missing else ""
    return f"MindSpore Transformers {stack.mindformers}{note}"


def _judge_cann(installed: Installed, paired: str | None) -> Check:
    if installed.cann is None and installed.driver is not None:
        do = "source CANN's set_env.sh (it sets ASCEND_HOME_PATH), or install the paired CANN"
        return Check("CANN", GROUP, "error", f"not found, beside driver {installed.driver}", paired or "", do)
    return _judge_part("CANN", installed.cann, paired)


def _judge_part(name: str, found: str | None, paired: str | None) -> Check:
    if found is None:
        return Check(name, GROUP, "pass", "not installed: a CPU needs none", paired or "")
    if paired is None:
        return Check(
            name,
            GROUP,
            "warning",
            f"{found}, with no MindSpore to pair it with",
            "a row of the table",
            "install a MindSpore from the version table first",
        )
    if _same(found, paired):
        return Check(name, GROUP, "pass", found, paired)
    age = "older" if Version(found) < Version(paired) else "newer"
    do = f"install {name} {paired}, or take the MindSpore whose row has {name} {found}"
    return Check(name, GROUP, "error", f"{found} ({age} than the published combination)", paired, do)


def _same(one: str, other: str | None) -> bool:
    return other is not None and Version(one) == Version(other)


def _version_in(candidates: Iterable[Path]) -> str | None:
    """The `version=` of the first file that can be read and has one."""
    for path in candidates:
        try:
            match = re.search(r"^version=(\d\S*)", path.read_text(errors="replace"), re.IGNORECASE | re.MULTILINE)
        except OSError:
            continue
        if match:
            return match.group(1)
    return None
