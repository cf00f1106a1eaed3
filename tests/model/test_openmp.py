"""OpenMP's threads sleep while they wait, unless the user has other wishes; OpenMP itself says so when it is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

KEYS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


def reported(code: str = "import mindport.model", **wishes: str) -> list[tuple[str, str]]:
    """What OpenMP reports when it is loaded, in a process that runs `code` and in those that it starts."""
    environment = {k: v for k, v in os.environ.items() if k not in KEYS}
    done = subprocess.run([sys.executable, "-c", code], env={**environment, "OMP_DISPLAY_ENV": "verbose", **wishes},
                          capture_output=True, text=True, timeout=300, check=True)  # fmt: skip
    lines = [line.split("=", 1) for line in done.stderr.splitlines() if "=" in line]
    return [(name.split()[-1], value.strip().strip("'")) for name, value in lines]


def policy(*args: str, **wishes: str) -> tuple[str, ...]:
    """The two settings, as the last library that was loaded reports them."""
    found = dict(reported(*args, **wishes))
    return tuple(found[key] for key in KEYS)


def test_they_sleep():
    assert policy() == ("PASSIVE", "0")


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [({"OMP_WAIT_POLICY": "active"}, ("ACTIVE", None)), ({"GOMP_SPINCOUNT": "77"}, (None, "77"))],
)
def test_the_user_decides(wishes, expected):
    got = policy(**wishes)
    assert [g for g, e in zip(got, expected, strict=True) if e is not None] == [e for e in expected if e is not None]


def test_it_comes_too_late_after_mindspore():
    assert policy("import mindspore, mindport.model") != ("PASSIVE", "0")


def test_the_processes_that_this_one_starts_are_not_told():
    start = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import mindspore'])"
    spins = [value for name, value in reported(f"import mindport.model; {start}") if name == "GOMP_SPINCOUNT"]
    assert spins[0] == "0"
    assert spins[-1] != "0"
