"""The whole environment check: `python -m mindport.environment.doctor`, `mindport doctor`, notebook 00."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mindport.environment import devices, kernel, packages, probes, system, versions
from mindport.environment.check import STATES, Check
from mindport.errors import MindPortError, UsageError
from mindport.results import Property, Result, verdict
from mindport.tables import Table

_CHECKS: dict[str, Callable[[], tuple[Check, ...]]] = {
    system.GROUP: system.check_system,
    packages.GROUP: packages.check_packages,
    versions.GROUP: lambda: versions.judge(versions.installed_versions()),
    devices.GROUP: devices.check_devices,
    kernel.GROUP: kernel.check_kernel,
    probes.GROUP: probes.run_probes,
}
GROUPS = tuple(_CHECKS)
COMMAND = "mindport doctor"


@dataclass(frozen=True)
class EnvironmentReport(Result):
    """Every check of one run, in the order of the groups; `seconds` is the wall time of all of it."""

    checks: tuple[Check, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return not any(check.state == "error" for check in self.checks)

    def headline(self) -> str:
        counts = Counter(check.state for check in self.checks)
        told = ", ".join(f"{counts[state]} {state}" for state in STATES)
        return f"The environment {'is ready' if self.ok else 'is not ready'}: {told} ({self.seconds:.0f} s)"

    def tables(self) -> tuple[Table, ...]:
        groups = dict.fromkeys(check.group for check in self.checks)
        first = (self.to_do(),) if self.to_do().rows else ()
        return (*first, *(self.table(group) for group in groups))

    def summary(self) -> Table:
        """How many checks of each group are in each state."""
        groups = {group: Counter(c.state for c in self.checks if c.group == group) for group in GROUPS}
        rows = [(group, *(counts[state] for state in STATES)) for group, counts in groups.items() if counts]
        return Table(self.headline(), ("group", *STATES), rows)

    def table(self, group: str) -> Table:
        """The checks of one group."""
        rows = [(check.state, check.name, check.found, check.expected) for check in self.checks if check.group == group]
        return Table(group, ("state", "check", "found", "expected"), rows)

    def to_do(self) -> Table:
        """What to do, errors first; no rows when all is well."""
        open_ = sorted((check for check in self.checks if check.do), key=lambda check: -STATES.index(check.state))
        rows = [(check.state, check.name, check.found, check.do) for check in open_]
        return Table("what to do" if rows else "nothing to do", ("state", "check", "found", "what to do"), rows)

    def check(self, name: str) -> Check:
        """One check by its name.

        Raises:
            UsageError: this report has no such check.
        """
        for check in self.checks:
            if check.name == name:
                return check
        names = ", ".join(check.name for check in self.checks)
        raise UsageError("the report has no such check", got=name, expected=names)

    def properties(self) -> tuple[Property, ...]:
        counts = Counter(check.state for check in self.checks)
        figure = f"{counts['error']} errors, {counts['warning']} warnings of {len(self.checks)} checks"
        whole = verdict("the environment has no error", self.ok, COMMAND, figure, backend="none")
        return (whole, *_probe_properties(self.checks))


def diagnose_environment(probes: bool = True, only: Sequence[str] | None = None) -> EnvironmentReport:
    """Check this machine.

    Args:
        probes: run the probes too (about ten seconds on two quiet cores); they start MindSpore and PyTorch.
        only: the groups to look at, of `GROUPS`; all of them when None.

    Raises:
        UsageError: `only` names a group that does not exist.
    """
    unknown = [group for group in only or () if group not in GROUPS]
    if unknown:
        raise UsageError("there is no such group of checks", got=", ".join(unknown), expected=", ".join(GROUPS))
    groups = [group for group in GROUPS if group in (only or GROUPS) and (probes or group != "probes")]
    start = time.perf_counter()
    checks = tuple(check for group in groups for check in _run_group(group))
    return EnvironmentReport(checks, round(time.perf_counter() - start, 1))


def _run_group(group: str) -> tuple[Check, ...]:
    """The rows of a group; a fault in the check itself is a row too, so that one cannot hide the others."""
    try:
        return _CHECKS[group]()
    except Exception as error:  # whatever it is, it becomes a row
        found = f"the check itself stopped: {type(error).__name__}: {error}"
        do = "this is a fault of MindPort or a very unusual machine: report this line"
        return (Check(group, group, "error", found, "an answer", do),)


def _probe_properties(checks: Sequence[Check]) -> tuple[Property, ...]:
    ran = [check for check in checks if check.group == probes.GROUP]
    if not ran:
        return (Property("the probes", "skipped", "not asked for"),)
    named = [match[1] for check in ran if (match := re.search(r"on platform \[(\w+)\]", check.found))]  # by run_check
    return tuple(_probe_property(check, named[0] if named else "none") for check in ran)


def _probe_property(check: Check, backend: str) -> Property:
    name, how = f"{check.name}: {check.expected}", f"{COMMAND}: a program in a process of its own"
    if check.state == "warning" or "unregistered" in check.found:  # a kernel that this device has not: nothing to try
        return Property(name, "skipped", check.found, backend=backend)
    return verdict(name, check.state == "pass", how, check.found, backend)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 ready, 1 not ready, 2 wrong arguments; any Python gets this far."""
    if (python := system.check_python(sys.version_info[:3])).state == "error":
        print(f"Python {python.found}: MindSpore has wheels for {python.expected}; {python.do}", file=sys.stderr)
        return 1
    parser = argparse.ArgumentParser(prog=COMMAND, description="Check this machine and say what to do.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--quick", action="store_true", help="leave the probes out; start no framework")
    parser.add_argument("--only", action="append", metavar="GROUP", help=f"one of {', '.join(GROUPS)}; may be repeated")
    options = parser.parse_args(arguments)
    try:
        report = diagnose_environment(probes=not options.quick, only=options.only)
    except MindPortError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False) if options.json else report.text())
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
